#pragma once

/// `Nccl` is the backend for many GPUs: one process or thread a GPU, NCCL underneath at full speed,
/// and around it what NCCL leaves to its users: ranks that find one another, deadlines on every call
/// of the host, dead peers noticed, one thread at a time inside NCCL on each GPU, and a way back
/// after a failure.
///
///     auto made = comm::Communicator<comm::Nccl>::create();      // as the launcher's variables say
///     if (!made.ok()) return fail(made.message());
///     comm::Status s = made->all_reduce(comm::DeviceSpan(gradients, count), comm::ReduceOp::sum,
///                                       stream);
///
/// Cost: `all_reduce` is inline, a lock that is free, two loads and NCCL's own call; no allocation,
/// no virtual call, no thread. One watchdog thread a communicator sleeps in the background. Small
/// sums take a way of comm's own (docs/nccl.md), the same on every rank.
///
/// Threads: calls from several threads are serialised, and `is_healthy` and `abort` may come from
/// any. A group belongs to the thread that opened it. Operations may be captured into CUDA graphs;
/// those that wait refuse to. Destroy such graphs before the communicator.
///
/// Movable; a move is a few pointers. Destruction waits for what is queued, bounded by
/// `close_timeout`, and never hangs; `close()` does the same and says how it went.

#include <memory>
#include <utility>

#include "comm/backend.h"
#include "comm/backend_defaults.h"
#include "comm/backends/nccl/config.h"
#include "comm/backends/nccl/hot_state.h"
#include "comm/backends/nccl/native.h"

namespace comm {

namespace detail::nccl {
struct State;
}  // namespace detail::nccl

/// An all-reduce under way. Dropping it without a join orders nothing and waits for nothing.
class NcclTicket {
 public:
  NcclTicket(NcclTicket&& other) noexcept;
  NcclTicket& operator=(NcclTicket&& other) noexcept;
  ~NcclTicket();

  /// What is put on `compute` from now on waits for the all-reduce; the host does not.
  Status join(Stream compute);

 private:
  friend class Nccl;
  NcclTicket(std::shared_ptr<detail::nccl::State> state, cudaEvent_t done, bool captured) noexcept;
  void release() noexcept;

  std::shared_ptr<detail::nccl::State> state_;
  cudaEvent_t done_ = nullptr;
  bool captured_ = false;
};

class Nccl : public BackendDefaults<Nccl> {
 public:
  using Config = NcclConfig;
  using Ticket = NcclTicket;

  /// All ranks call it; waits for all, no longer than `launch.init_timeout`.
  static Result<Nccl> create(const Config& config);

  Nccl(Nccl&& other) noexcept
      : hot_(std::exchange(other.hot_, nullptr)), state_(std::move(other.state_)) {}
  Nccl& operator=(Nccl&& other) noexcept;
  ~Nccl();

  int rank() const { return hot_->rank; }
  int world_size() const { return hot_->world_size; }
  std::uint64_t epoch() const;

  [[gnu::always_inline]] Status all_reduce(const ops::AllReduce& op) {
    using detail::nccl::native;
    detail::nccl::HotState& s = *hot_;
    if (op.count > s.detour_counts[static_cast<int>(op.type)] &&
        op.op.kind() != ReduceOp::Kind::premul_sum) [[likely]] {
      if (ncclComm_t comm = nullptr; s.enter(Operation::all_reduce, comm)) [[likely]] {
        const ncclResult_t result = ncclAllReduce(op.send, op.recv, op.count, native(op.type),
                                                  native(op.op), comm, s.stream_of(op.stream));
        if (result != ncclSuccess) [[unlikely]]
          return finish_all_reduce(result, comm);
        s.lock->unlock();
        return {};
      }
    }
    // A copy, so that `op` itself can stay in registers on the way above.
    const ops::AllReduce copy = op;
    return all_reduce_otherwise(copy);
  }

  Status all_reduce_async(const ops::AllReduceAsync& op);
  Result<Ticket> all_reduce_deferred(const ops::AllReduceDeferred& op);
  Status all_gather(const ops::AllGather& op);
  Status reduce_scatter(const ops::ReduceScatter& op);
  Status broadcast(const ops::Broadcast& op);
  Status broadcast_async(const ops::BroadcastAsync& op);
  Status recv_command_u32(const ops::RecvCommandU32& op);
  Status reduce(const ops::Reduce& op);
  Status gather(const ops::Gather& op);
  Status scatter(const ops::Scatter& op);
  Status all_to_all(const ops::AllToAll& op);
  Status all_to_all_v(const ops::AllToAllV& op);
  Status send_to(const ops::SendTo& op);
  Status recv_from(const ops::RecvFrom& op);
  Status send_recv(const ops::SendRecv& op);
  Status barrier(const ops::Barrier& op);
  Status barrier_wait(const ops::BarrierWait& op);
  Status synchronize(const ops::Synchronize& op);

  Status group_start(const ops::GroupStart& op);
  Status group_end(const ops::GroupEnd& op);

  Result<RegistrationHandle> register_buffer(const ops::RegisterBuffer& op);
  Status deregister_buffer(const ops::DeregisterBuffer& op);

  /// Memory of `ncclMemAlloc`, with a window over it where NCCL and the GPUs have them. To be freed
  /// when no operation uses it any more.
  Result<void*> symmetric_alloc(const ops::SymmetricAlloc& op);
  Status symmetric_free(const ops::SymmetricFree& op);

  /// The engine's kernel: (accumulator, addend, count), bf16, count of 32 or 64 bits. It is launched
  /// with one thread an element, in blocks of 256. nullptr: comm's own again.
  Status set_add_kernel(const ops::SetAddKernel& op);

  Result<Nccl> split(const ops::Split& op);
  Result<Nccl> shrink(const ops::Shrink& op);

  Status exchange(const Exchange& exchange);
  Status declare_unhealthy(Operation operation, const Status& cause);
  LogSettings log_settings() const;

  bool is_healthy() const;
  Status attempt_reconnect(const ops::AttemptReconnect& op);
  Status abort(const ops::Abort& op);

  /// Ends the communicator and says how that went; every later operation is refused.
  Status close();

  /// NCCL's own handle, for what comm does not have; nullptr after a failure. Not to be destroyed.
  ncclComm_t native_handle() const { return hot_->comm.load(); }
  /// The communicator's own stream.
  cudaStream_t stream() const { return hot_->stream; }

 private:
  explicit Nccl(std::shared_ptr<detail::nccl::State> state) noexcept;
  [[gnu::cold]] Status finish_all_reduce(ncclResult_t result, ncclComm_t comm);
  Status all_reduce_otherwise(const ops::AllReduce& op);
  Result<NcclTicket> start_all_reduce(Operation operation, const ops::AllReduceAsync& op);

  detail::nccl::HotState* hot_;
  std::shared_ptr<detail::nccl::State> state_;
};

static_assert(Backend<Nccl>);
static_assert(Creatable<Nccl>);
static_assert(HasAgreement<Nccl>);
static_assert(HasLogSettings<Nccl>);

}  // namespace comm
