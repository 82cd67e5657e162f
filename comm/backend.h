#pragma once

/// What a backend is. A backend is a movable type that models `Backend`; `Communicator<B>` puts the
/// typed face on it. There is no base class to override and no virtual call: a type that has the
/// members is a backend. One concept an operation, so that a compiler's complaint about a type
/// that is not quite a backend ends in the name of the operation it misses.
///
///     class MyBackend : public comm::BackendDefaults<MyBackend> { … required members … };
///     static_assert(comm::Backend<MyBackend>);
///     comm::Communicator<MyBackend> communicator(MyBackend(…));
///
/// `docs/backends.md` shows a whole one. What the concepts cannot say is promised by number, and
/// each number has a case in `comm/testing/contract_suite.h`:
///
///  1. Ranks are 0 … world_size - 1, fixed for the life of the backend but for a reconnect.
///  2. A count of zero is legal everywhere, reads and writes nothing, and still is an operation
///     that all ranks call.
///  3. Where `moves_data`, results are in `recv` (or `buffer`); otherwise nothing is written, ever.
///  4. In-place arguments (operations.h) give what out-of-place ones give.
///  5. Reductions are bit-identical on every rank.
///  6. Every operation returns within its deadline, or has none by contract (recv_command_u32).
///  7. After a failure that leaves ranks out of step, `is_healthy()` is false and every operation
///     is refused with the first cause.
///  8. `recv_command_u32` refuses the root.
///  9. Group depth returns to zero; what was submitted between start and end has run after end.
/// 10. A registration handle stays valid until it is deregistered, also across a reconnect.

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "comm/operations.h"
#include "comm/result.h"
#include "comm/status.h"

namespace comm {

namespace detail {
template <class R, class T>
concept Is = std::same_as<R, T>;
}  // namespace detail

template <class B>
concept HasIdentity = std::movable<B> && requires(const B& b) {
  { b.rank() } -> detail::Is<int>;
  { b.world_size() } -> detail::Is<int>;
};

/// False says that the world is one rank and every buffer stays where it is: results are then where
/// the contribution was, and no argument is looked at.
template <class B>
concept StatesWhetherDataMoves = requires {
  { B::moves_data } -> std::convertible_to<bool>;
  typename std::bool_constant<static_cast<bool>(B::moves_data)>;
};

template <class B>
concept HasEpoch = requires(const B& b) {
  { b.epoch() } -> detail::Is<std::uint64_t>;
};
template <class B>
concept HasAllReduce = requires(B& b, const ops::AllReduce& op) {
  { b.all_reduce(op) } -> detail::Is<Status>;
};
template <class B>
concept HasAllReduceAsync = requires(B& b, const ops::AllReduceAsync& op) {
  { b.all_reduce_async(op) } -> detail::Is<Status>;
};
/// Nothing blocks when a ticket that was never joined is destroyed.
template <class B>
concept HasTicket = std::movable<typename B::Ticket> && requires(typename B::Ticket& t, Stream s) {
  { t.join(s) } -> detail::Is<Status>;
};
template <class B>
concept HasAllReduceDeferred = HasTicket<B> && requires(B& b, const ops::AllReduceDeferred& op) {
  { b.all_reduce_deferred(op) } -> detail::Is<Result<typename B::Ticket>>;
};
template <class B>
concept HasAllGather = requires(B& b, const ops::AllGather& op) {
  { b.all_gather(op) } -> detail::Is<Status>;
};
template <class B>
concept HasReduceScatter = requires(B& b, const ops::ReduceScatter& op) {
  { b.reduce_scatter(op) } -> detail::Is<Status>;
};
template <class B>
concept HasBroadcast = requires(B& b, const ops::Broadcast& op) {
  { b.broadcast(op) } -> detail::Is<Status>;
};
template <class B>
concept HasBroadcastAsync = requires(B& b, const ops::BroadcastAsync& op) {
  { b.broadcast_async(op) } -> detail::Is<Status>;
};
template <class B>
concept HasRecvCommandU32 = requires(B& b, const ops::RecvCommandU32& op) {
  { b.recv_command_u32(op) } -> detail::Is<Status>;
};
template <class B>
concept HasReduce = requires(B& b, const ops::Reduce& op) {
  { b.reduce(op) } -> detail::Is<Status>;
};
template <class B>
concept HasGather = requires(B& b, const ops::Gather& op) {
  { b.gather(op) } -> detail::Is<Status>;
};
template <class B>
concept HasScatter = requires(B& b, const ops::Scatter& op) {
  { b.scatter(op) } -> detail::Is<Status>;
};
template <class B>
concept HasAllToAll = requires(B& b, const ops::AllToAll& op) {
  { b.all_to_all(op) } -> detail::Is<Status>;
};
template <class B>
concept HasAllToAllV = requires(B& b, const ops::AllToAllV& op) {
  { b.all_to_all_v(op) } -> detail::Is<Status>;
};
template <class B>
concept HasSendTo = requires(B& b, const ops::SendTo& op) {
  { b.send_to(op) } -> detail::Is<Status>;
};
template <class B>
concept HasRecvFrom = requires(B& b, const ops::RecvFrom& op) {
  { b.recv_from(op) } -> detail::Is<Status>;
};
template <class B>
concept HasSendRecv = requires(B& b, const ops::SendRecv& op) {
  { b.send_recv(op) } -> detail::Is<Status>;
};
template <class B>
concept HasBarrier = requires(B& b, const ops::Barrier& op) {
  { b.barrier(op) } -> detail::Is<Status>;
};
template <class B>
concept HasBarrierWait = requires(B& b, const ops::BarrierWait& op) {
  { b.barrier_wait(op) } -> detail::Is<Status>;
};
template <class B>
concept HasGroups = requires(B& b) {
  { b.group_start(ops::GroupStart{}) } -> detail::Is<Status>;
  { b.group_end(ops::GroupEnd{}) } -> detail::Is<Status>;
};
template <class B>
concept HasRegistration = requires(B& b, const ops::RegisterBuffer& r,
                                   const ops::DeregisterBuffer& d) {
  { b.register_buffer(r) } -> detail::Is<Result<RegistrationHandle>>;
  { b.deregister_buffer(d) } -> detail::Is<Status>;
};
template <class B>
concept HasSymmetricMemory = requires(B& b, const ops::SymmetricAlloc& a,
                                      const ops::SymmetricFree& f) {
  { b.symmetric_alloc(a) } -> detail::Is<Result<void*>>;
  { b.symmetric_free(f) } -> detail::Is<Status>;
};
template <class B>
concept HasSetAddKernel = requires(B& b, const ops::SetAddKernel& op) {
  { b.set_add_kernel(op) } -> detail::Is<Status>;
};
template <class B>
concept HasSplit = requires(B& b, const ops::Split& op) {
  { b.split(op) } -> detail::Is<Result<B>>;
};
template <class B>
concept HasShrink = requires(B& b, const ops::Shrink& op) {
  { b.shrink(op) } -> detail::Is<Result<B>>;
};
template <class B>
concept HasSynchronize = requires(B& b, const ops::Synchronize& op) {
  { b.synchronize(op) } -> detail::Is<Status>;
};
template <class B>
concept HasHealth = requires(B& b, const B& c) {
  { c.is_healthy() } -> detail::Is<bool>;
  { b.attempt_reconnect(ops::AttemptReconnect{}) } -> detail::Is<Status>;
  { b.abort(ops::Abort{}) } -> detail::Is<Status>;
};

template <class B>
concept Backend = HasIdentity<B> && StatesWhetherDataMoves<B> && HasEpoch<B> && HasAllReduce<B> &&
    HasAllReduceAsync<B> && HasAllReduceDeferred<B> && HasAllGather<B> && HasReduceScatter<B> &&
    HasBroadcast<B> && HasBroadcastAsync<B> && HasRecvCommandU32<B> && HasReduce<B> &&
    HasGather<B> && HasScatter<B> && HasAllToAll<B> && HasAllToAllV<B> && HasSendTo<B> &&
    HasRecvFrom<B> && HasSendRecv<B> && HasBarrier<B> && HasBarrierWait<B> && HasGroups<B> &&
    HasRegistration<B> && HasSymmetricMemory<B> && HasSetAddKernel<B> && HasSplit<B> &&
    HasShrink<B> && HasSynchronize<B> && HasHealth<B>;

/// Optional: a backend that the face can make, with `Communicator<B>::create(config)`. A
/// default-constructed `Config` means "as the environment says" (launch variables).
template <class B>
concept Creatable = requires(const typename B::Config& config) {
  typename B::Config;
  { B::create(config) } -> detail::Is<Result<B>>;
};

/// The most bytes of one rank in one exchange.
inline constexpr std::size_t kMaxExchangedBytes = 48;

/// A few bytes from every rank to every rank, beside the data path: nothing that the backend has
/// been given to do waits for it, and it waits for nothing of that, on no stream.
struct Exchange {
  Operation operation;  ///< On whose behalf, for messages.
  const void* mine;     ///< `bytes` bytes.
  void* all;            ///< `world_size() * bytes` bytes, in rank order.
  std::size_t bytes;    ///< The same on all ranks, at most `kMaxExchangedBytes`.
  Timeout timeout;      ///< Where it is not given, the backend's for collectives.
  /// Of the last 8 bytes, a number, only the sum over the ranks is asked, which need not be told who
  /// had which: a backend may put the sum into one place of `all` and 0 into the others.
  bool sums_last = false;
};

/// Optional: ranks can agree on what they are about to do, which `Checked` needs. `exchange` may be
/// called with a group open and during a graph capture, and returns when all ranks have called it,
/// or with an error that names who has not. `declare_unhealthy` makes this communicator refuse all
/// that follows with this first cause, as a failure of the backend's own would; it returns the error
/// that `operation` shall have.
template <class B>
concept HasAgreement = requires(B& b, const Exchange& exchange, Operation operation,
                                const Status& cause) {
  { b.exchange(exchange) } -> detail::Is<Status>;
  { b.declare_unhealthy(operation, cause) } -> detail::Is<Status>;
};

/// Optional: the host may read and write the buffers of operations, at once and when they have
/// returned.
template <class B>
concept UsesHostMemory = static_cast<bool>(B::uses_host_memory);

}  // namespace comm
