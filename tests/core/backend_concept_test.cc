// The counterexample matrix: a good model of Backend, and one that is worse for each requirement.
// Each misses that one concept and no other, so a complaint names what is missing.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "comm/backend.h"
#include "comm/backend_defaults.h"
#include "tests/core/recording_backend.h"

namespace {

using comm::Result, comm::Status;
namespace ops = comm::ops;

/// What BackendDefaults asks for, and no more.
template <class Self>
struct Good : comm::BackendDefaults<Self> {
  int rank() const { return 0; }
  int world_size() const { return 2; }
  Status all_reduce(const ops::AllReduce&) { return {}; }
  Status all_gather(const ops::AllGather&) { return {}; }
  Status reduce_scatter(const ops::ReduceScatter&) { return {}; }
  Status broadcast(const ops::Broadcast&) { return {}; }
  Status reduce(const ops::Reduce&) { return {}; }
  Status gather(const ops::Gather&) { return {}; }
  Status scatter(const ops::Scatter&) { return {}; }
  Status all_to_all(const ops::AllToAll&) { return {}; }
  Status all_to_all_v(const ops::AllToAllV&) { return {}; }
  Status send_to(const ops::SendTo&) { return {}; }
  Status recv_from(const ops::RecvFrom&) { return {}; }
  Status send_recv(const ops::SendRecv&) { return {}; }
  Status barrier(const ops::Barrier&) { return {}; }
};

/// The concepts that `B` does not model, by name.
template <class B>
std::vector<std::string> missing() {
  std::vector<std::string> names;
  auto add = [&](bool models, const char* name) {
    if (!models) names.push_back(name);
  };
  add(comm::HasIdentity<B>, "HasIdentity");
  add(comm::StatesWhetherDataMoves<B>, "StatesWhetherDataMoves");
  add(comm::HasEpoch<B>, "HasEpoch");
  add(comm::HasAllReduce<B>, "HasAllReduce");
  add(comm::HasAllReduceAsync<B>, "HasAllReduceAsync");
  add(comm::HasAllReduceDeferred<B>, "HasAllReduceDeferred");
  add(comm::HasAllGather<B>, "HasAllGather");
  add(comm::HasReduceScatter<B>, "HasReduceScatter");
  add(comm::HasBroadcast<B>, "HasBroadcast");
  add(comm::HasBroadcastAsync<B>, "HasBroadcastAsync");
  add(comm::HasRecvCommandU32<B>, "HasRecvCommandU32");
  add(comm::HasReduce<B>, "HasReduce");
  add(comm::HasGather<B>, "HasGather");
  add(comm::HasScatter<B>, "HasScatter");
  add(comm::HasAllToAll<B>, "HasAllToAll");
  add(comm::HasAllToAllV<B>, "HasAllToAllV");
  add(comm::HasSendTo<B>, "HasSendTo");
  add(comm::HasRecvFrom<B>, "HasRecvFrom");
  add(comm::HasSendRecv<B>, "HasSendRecv");
  add(comm::HasBarrier<B>, "HasBarrier");
  add(comm::HasBarrierWait<B>, "HasBarrierWait");
  add(comm::HasGroups<B>, "HasGroups");
  add(comm::HasRegistration<B>, "HasRegistration");
  add(comm::HasSymmetricMemory<B>, "HasSymmetricMemory");
  add(comm::HasSetAddKernel<B>, "HasSetAddKernel");
  add(comm::HasSplit<B>, "HasSplit");
  add(comm::HasShrink<B>, "HasShrink");
  add(comm::HasSynchronize<B>, "HasSynchronize");
  add(comm::HasHealth<B>, "HasHealth");
  CHECK(names.empty() == comm::Backend<B>);
  return names;
}

template <class B>
void check_misses(const char* concept_name) {
  CHECK(missing<B>() == std::vector<std::string>{concept_name});
}

struct Model : Good<Model> {};
static_assert(comm::Backend<Model> && !comm::Creatable<Model>);
static_assert(!comm::Backend<int> && !comm::Backend<Model&> && !comm::Backend<const Model>);

// One break each: an operation is absent, takes another struct, or returns something else.
struct VoidRank : Good<VoidRank> {
  void rank() const {}
};
struct NotConstRank : Good<NotConstRank> {
  int rank() { return 0; }
};
struct NotMovable : Good<NotMovable> {
  NotMovable(NotMovable&&) = delete;
};
struct MovesIsNoConstant : Good<MovesIsNoConstant> {
  static inline bool moves_data = true;
};
struct IntEpoch : Good<IntEpoch> {
  int epoch() const { return 0; }
};
struct AllReduceReturnsBool : Good<AllReduceReturnsBool> {
  bool all_reduce(const ops::AllReduce&) { return true; }
};
struct AsyncTakesAllReduce : Good<AsyncTakesAllReduce> {
  Status all_reduce_async(const ops::AllReduce&) { return {}; }
};
struct TicketWithoutJoin : Good<TicketWithoutJoin> {
  struct Ticket {};
  Result<Ticket> all_reduce_deferred(const ops::AllReduceDeferred&) { return Ticket{}; }
};
struct DeferredReturnsStatus : Good<DeferredReturnsStatus> {
  Status all_reduce_deferred(const ops::AllReduceDeferred&) { return {}; }
};
struct NoAllGather : Good<NoAllGather> {
  Status all_gather(const ops::AllGather&) = delete;
};
struct NoReduceScatter : Good<NoReduceScatter> {
  Status reduce_scatter(const ops::ReduceScatter&) = delete;
};
struct BroadcastByMutableReference : Good<BroadcastByMutableReference> {
  Status broadcast(ops::Broadcast&) { return {}; }
};
struct NoBroadcastAsync : Good<NoBroadcastAsync> {
  Status broadcast_async(const ops::BroadcastAsync&) = delete;
};
struct CommandReturnsTheWord : Good<CommandReturnsTheWord> {
  Result<std::uint32_t> recv_command_u32(const ops::RecvCommandU32&) { return 0U; }
};
struct NoReduce : Good<NoReduce> {
  Status reduce(const ops::Reduce&) = delete;
};
struct NoGather : Good<NoGather> {
  Status gather(const ops::Gather&) = delete;
};
struct NoScatter : Good<NoScatter> {
  Status scatter(const ops::Scatter&) = delete;
};
struct NoAllToAll : Good<NoAllToAll> {
  Status all_to_all(const ops::AllToAll&) = delete;
};
struct NoAllToAllV : Good<NoAllToAllV> {
  Status all_to_all_v(const ops::AllToAllV&) = delete;
};
struct NoSendTo : Good<NoSendTo> {
  Status send_to(const ops::SendTo&) = delete;
};
struct NoRecvFrom : Good<NoRecvFrom> {
  Status recv_from(const ops::RecvFrom&) = delete;
};
struct NoSendRecv : Good<NoSendRecv> {
  Status send_recv(const ops::SendRecv&) = delete;
};
struct VoidBarrier : Good<VoidBarrier> {
  void barrier(const ops::Barrier&) {}
};
struct NoBarrierWait : Good<NoBarrierWait> {
  Status barrier_wait(const ops::BarrierWait&) = delete;
};
struct GroupNeverEnds : Good<GroupNeverEnds> {
  Status group_end(const ops::GroupEnd&) = delete;
};
struct HandleIsInt : Good<HandleIsInt> {
  Result<int> register_buffer(const ops::RegisterBuffer&) { return 0; }
};
struct NoDeregister : Good<NoDeregister> {
  Status deregister_buffer(const ops::DeregisterBuffer&) = delete;
};
struct SymmetricIsTyped : Good<SymmetricIsTyped> {
  Result<float*> symmetric_alloc(const ops::SymmetricAlloc&) { return nullptr; }
};
struct NoAddKernel : Good<NoAddKernel> {
  Status set_add_kernel(const ops::SetAddKernel&) = delete;
};
struct SplitsIntoModel : Good<SplitsIntoModel> {
  Result<Model> split(const ops::Split&) { return Model(); }
};
struct NoShrink : Good<NoShrink> {
  Result<NoShrink> shrink(const ops::Shrink&) = delete;
};
struct NoSynchronize : Good<NoSynchronize> {
  Status synchronize(const ops::Synchronize&) = delete;
};
struct HealthIsNotConst : Good<HealthIsNotConst> {
  bool is_healthy() { return true; }
};
struct NoReconnect : Good<NoReconnect> {
  Status attempt_reconnect(const ops::AttemptReconnect&) = delete;
};
struct NoAbort : Good<NoAbort> {
  Status abort(const ops::Abort&) = delete;
};

// Creatable.
struct CreatesAnother : Good<CreatesAnother> {
  struct Config {};
  static Result<Model> create(const Config&) { return Model(); }
};
struct ConfigWithoutCreate : Good<ConfigWithoutCreate> {
  struct Config {};
};
static_assert(comm::Backend<CreatesAnother> && !comm::Creatable<CreatesAnother>);
static_assert(comm::Backend<ConfigWithoutCreate> && !comm::Creatable<ConfigWithoutCreate>);
static_assert(comm::Creatable<tests::RecordingBackend>);

}  // namespace

TEST_CASE("backend: what BackendDefaults asks for is enough") {
  CHECK(missing<Model>().empty());
  CHECK(missing<tests::RecordingBackend>().empty());
}

TEST_CASE("backend: each break is named by its concept, and by no other") {
  check_misses<VoidRank>("HasIdentity");
  check_misses<NotConstRank>("HasIdentity");
  check_misses<MovesIsNoConstant>("StatesWhetherDataMoves");
  check_misses<IntEpoch>("HasEpoch");
  check_misses<AllReduceReturnsBool>("HasAllReduce");
  check_misses<AsyncTakesAllReduce>("HasAllReduceAsync");
  check_misses<TicketWithoutJoin>("HasAllReduceDeferred");
  check_misses<DeferredReturnsStatus>("HasAllReduceDeferred");
  check_misses<NoAllGather>("HasAllGather");
  check_misses<NoReduceScatter>("HasReduceScatter");
  check_misses<BroadcastByMutableReference>("HasBroadcast");
  check_misses<NoBroadcastAsync>("HasBroadcastAsync");
  check_misses<CommandReturnsTheWord>("HasRecvCommandU32");
  check_misses<NoReduce>("HasReduce");
  check_misses<NoGather>("HasGather");
  check_misses<NoScatter>("HasScatter");
  check_misses<NoAllToAll>("HasAllToAll");
  check_misses<NoAllToAllV>("HasAllToAllV");
  check_misses<NoSendTo>("HasSendTo");
  check_misses<NoRecvFrom>("HasRecvFrom");
  check_misses<NoSendRecv>("HasSendRecv");
  check_misses<VoidBarrier>("HasBarrier");
  check_misses<NoBarrierWait>("HasBarrierWait");
  check_misses<GroupNeverEnds>("HasGroups");
  check_misses<HandleIsInt>("HasRegistration");
  check_misses<NoDeregister>("HasRegistration");
  check_misses<SymmetricIsTyped>("HasSymmetricMemory");
  check_misses<NoAddKernel>("HasSetAddKernel");
  check_misses<SplitsIntoModel>("HasSplit");
  check_misses<NoShrink>("HasShrink");
  check_misses<NoSynchronize>("HasSynchronize");
  check_misses<HealthIsNotConst>("HasHealth");
  check_misses<NoReconnect>("HasHealth");
  check_misses<NoAbort>("HasHealth");
}

TEST_CASE("backend: what is not movable is none") {
  CHECK_FALSE(comm::HasIdentity<NotMovable>);
  CHECK_FALSE(comm::Backend<NotMovable>);
}

TEST_CASE("defaults: asynchronous forms run the synchronous ones, with the same arguments") {
  struct Backend : Good<Backend> {
    comm::OperationInfo last{comm::Operation::abort};
    Status all_reduce(const ops::AllReduce& op) {
      last = comm::info_of(op);
      return op.send == op.recv ? Status() : comm::make_error(comm::StatusCode::internal, 0, "!");
    }
    Status broadcast(const ops::Broadcast& op) {
      last = comm::info_of(op);
      return {};
    }
    int barriers = 0;
    Status barrier(const ops::Barrier&) {
      ++barriers;
      return {};
    }
  } b;
  float x[3] = {};
  CHECK(b.all_reduce_async({x, 3, comm::DataType::f32, comm::ReduceOp::max, {}}).ok());
  CHECK(b.last.operation == comm::Operation::all_reduce);
  CHECK(b.last.op == comm::ReduceOp::max);
  auto ticket = b.all_reduce_deferred({x, 2, comm::DataType::f32, comm::ReduceOp::sum, {}});
  CHECK(ticket.ok());
  CHECK(ticket->join(comm::Stream()).ok());
  CHECK(b.last.count == 2);
  CHECK(b.broadcast_async({x, 3, comm::DataType::f32, 1, {}}).ok());
  CHECK(b.last.root == 1);
  CHECK(b.recv_command_u32({x, 1, {}}).ok());
  CHECK(b.last.type == comm::DataType::u32);
  CHECK(b.last.count == 1);
  CHECK(b.recv_command_u32({x, 0, {}}).code() == comm::StatusCode::invalid_argument);
  CHECK(b.barrier_wait({}).ok());
  CHECK(b.barriers == 1);
}

TEST_CASE("defaults: what a small backend does not have is refused as unsupported, or is nothing") {
  Model m;
  CHECK(m.split({0, 0}).code() == comm::StatusCode::unsupported);
  CHECK(m.shrink({nullptr, 0}).code() == comm::StatusCode::unsupported);
  CHECK(m.symmetric_alloc({8}).code() == comm::StatusCode::unsupported);
  CHECK(m.symmetric_free({nullptr}).code() == comm::StatusCode::unsupported);
  CHECK(*m.register_buffer({nullptr, 0}) == 0);
  CHECK(m.deregister_buffer({0}).ok());
  CHECK(m.group_start({}).ok());
  CHECK(m.group_end({}).ok());
  CHECK(m.is_healthy());
  CHECK(m.attempt_reconnect({}).ok());
}
