// What is not a backend is refused in one line that names the operation it misses.

#include "comm/backend_defaults.h"
#include "comm/backends/single_gpu.h"
#include "comm/communicator.h"
#include "comm/decorator.h"

namespace {

using comm::SingleGpu;
using comm::Status;

struct Plain {};

// One break each. The matrix of all is in tests/core/backend_concept_test.cc; here are the words.
struct NoBroadcast : SingleGpu {
  Status broadcast(const comm::ops::Broadcast&) = delete;
};

struct VoidAllReduce : SingleGpu {
  void all_reduce(const comm::ops::AllReduce&) {}
};

struct TicketWithoutJoin : SingleGpu {
  struct Ticket {};
};

struct NoReduceScatter : SingleGpu {
  Status reduce_scatter(const comm::ops::ReduceScatter&) = delete;
};

struct NoCommand : SingleGpu {
  Status recv_command_u32(const comm::ops::RecvCommandU32&) = delete;
};

struct NoSendRecv : SingleGpu {
  Status send_recv(const comm::ops::SendRecv&) = delete;
};

struct NoBarrier : SingleGpu {
  Status barrier(const comm::ops::Barrier&) = delete;
};

struct NoGroupEnd : SingleGpu {
  Status group_end(const comm::ops::GroupEnd&) = delete;
};

struct HandleIsInt : SingleGpu {
  comm::Result<int> register_buffer(const comm::ops::RegisterBuffer&) { return 0; }
};

struct SymmetricIsTyped : SingleGpu {
  comm::Result<float*> symmetric_alloc(const comm::ops::SymmetricAlloc&) { return nullptr; }
};

struct SplitsIntoAnother : SingleGpu {
  comm::Result<SingleGpu> split(const comm::ops::Split&) { return SingleGpu(); }
};

/// Moves data, so that hooks run.
template <class Self>
struct Good : comm::BackendDefaults<Self> {
  int rank() const { return 0; }
  int world_size() const { return 1; }
  Status all_reduce(const comm::ops::AllReduce&) { return {}; }
  Status all_gather(const comm::ops::AllGather&) { return {}; }
  Status reduce_scatter(const comm::ops::ReduceScatter&) { return {}; }
  Status broadcast(const comm::ops::Broadcast&) { return {}; }
  Status reduce(const comm::ops::Reduce&) { return {}; }
  Status gather(const comm::ops::Gather&) { return {}; }
  Status scatter(const comm::ops::Scatter&) { return {}; }
  Status all_to_all(const comm::ops::AllToAll&) { return {}; }
  Status all_to_all_v(const comm::ops::AllToAllV&) { return {}; }
  Status send_to(const comm::ops::SendTo&) { return {}; }
  Status recv_from(const comm::ops::RecvFrom&) { return {}; }
  Status send_recv(const comm::ops::SendRecv&) { return {}; }
  Status barrier(const comm::ops::Barrier&) { return {}; }
};

struct Moving : Good<Moving> {};

struct NoReconnect : Good<NoReconnect> {
  Status attempt_reconnect(const comm::ops::AttemptReconnect&) = delete;
};

template <comm::Backend B>
struct Named : comm::Decorator<Named<B>, B> {
  using comm::Decorator<Named, B>::Decorator;
};

template <comm::Backend B>
struct Hooked : comm::Decorator<Hooked<B>, B> {
  using comm::Decorator<Hooked, B>::Decorator;
  template <class Op, class Next>
  int around(const Op&, Next) {
    return 0;
  }
};

}  // namespace

int main() {
  [[maybe_unused]] comm::Communicator<SingleGpu> right{SingleGpu()};
  [[maybe_unused]] comm::Communicator<Named<Moving>> named{Named<Moving>(Moving())};

#ifdef FAIL_not_a_backend
  comm::Communicator<Plain> c{Plain()};  // EXPECT: HasIdentity
#endif

#ifdef FAIL_an_operation_is_missing
  comm::Communicator<NoBroadcast> c{NoBroadcast()};  // EXPECT: HasBroadcast
#endif

#ifdef FAIL_an_operation_returns_nothing
  comm::Communicator<VoidAllReduce> c{VoidAllReduce()};  // EXPECT: HasAllReduce
#endif

#ifdef FAIL_a_ticket_cannot_be_joined
  comm::Communicator<TicketWithoutJoin> c{TicketWithoutJoin()};  // EXPECT: HasTicket
#endif

#ifdef FAIL_a_reduction_is_missing
  comm::Communicator<NoReduceScatter> c{NoReduceScatter()};  // EXPECT: HasReduceScatter
#endif

#ifdef FAIL_commands_are_missing
  comm::Communicator<NoCommand> c{NoCommand()};  // EXPECT: HasRecvCommandU32
#endif

#ifdef FAIL_point_to_point_is_missing
  comm::Communicator<NoSendRecv> c{NoSendRecv()};  // EXPECT: HasSendRecv
#endif

#ifdef FAIL_the_barrier_is_missing
  comm::Communicator<NoBarrier> c{NoBarrier()};  // EXPECT: HasBarrier
#endif

#ifdef FAIL_groups_never_end
  comm::Communicator<NoGroupEnd> c{NoGroupEnd()};  // EXPECT: HasGroups
#endif

#ifdef FAIL_a_handle_is_another_type
  comm::Communicator<HandleIsInt> c{HandleIsInt()};  // EXPECT: HasRegistration
#endif

#ifdef FAIL_symmetric_memory_is_typed
  comm::Communicator<SymmetricIsTyped> c{SymmetricIsTyped()};  // EXPECT: HasSymmetricMemory
#endif

#ifdef FAIL_a_derived_backend_splits_into_its_base
  comm::Communicator<SplitsIntoAnother> c{SplitsIntoAnother()};  // EXPECT: HasSplit
#endif

#ifdef FAIL_health_is_missing
  comm::Communicator<NoReconnect> c{NoReconnect()};  // EXPECT: HasHealth
#endif

#ifdef FAIL_a_decorator_around_no_backend
  Named<NoBroadcast> c{NoBroadcast()};  // EXPECT: HasBroadcast
#endif

#ifdef FAIL_a_hook_does_not_return_the_outcome
  comm::Communicator<Hooked<Moving>> c{Hooked<Moving>(Moving())};
  c.barrier().ignore();  // EXPECT: int
#endif

#ifdef FAIL_a_backend_that_nobody_can_create
  // EXPECT(g++): Creatable
  // EXPECT(clang++): no type named 'Config'
  comm::Communicator<Moving>::create().ignore();
#endif
}
