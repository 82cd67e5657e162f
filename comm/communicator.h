#pragma once

/// `Communicator<B>` is the face of comm: typed collectives over the ranks of backend `B`. It adds types
/// and argument checks to the backend and, where that moves no data, nothing at all.
///
///     auto made = comm::Communicator<comm::Host>::create();
///     if (!made.ok()) { std::fprintf(stderr, "%s\n", made.message()); return 1; }
///     auto& communicator = *made;
///     comm::Status s = communicator.all_reduce(comm::DeviceSpan(gradients, count));
///
/// Where the result is. An out-of-place collective returns the span that holds its result: `recv`
/// where data moves, `send` where the world is one rank and nothing moves. Code that goes on with
/// what was returned is right on every backend.
///
/// Stream order. Every operation is ordered on the stream it is given, or on the communicator's own.
/// Only broadcast, recv_command_u32, barrier_wait and synchronize make the host wait, for no longer
/// than their deadline. All ranks must call the same collectives in the same order.
///
/// Errors. Every operation returns a `Status` or a `Result`: invalid_argument (nothing was done and
/// the communicator is as before), unsupported, or a failure that makes it unhealthy, after which
/// every call is refused with the first cause until `attempt_reconnect` succeeds.
///
/// Threads. One thread at a time, but for `is_healthy` and `abort`, which any thread may call.
/// Move-only; not to be moved while guards made from it live (Group, Registration, SymmetricBuffer).

#include <initializer_list>
#include <utility>

#include "comm/backend.h"
#include "comm/device_span.h"
#include "comm/face.h"
#include "comm/group.h"
#include "comm/operations.h"
#include "comm/registration.h"
#include "comm/symmetric_buffer.h"

namespace comm {

template <Backend B>
class Communicator : detail::Face<B> {
  using Face = detail::Face<B>;
  using Face::backend_;
  using Face::check;
  using Face::result;
  using Face::result_on;

 public:
  using BackendType = B;
  using Ticket = typename B::Ticket;

  constexpr explicit Communicator(B backend) noexcept : Face(std::move(backend)) {}

  // Move-only over every backend, also over one that could be copied: what compiles for one GPU
  // compiles for many.
  constexpr Communicator(Communicator&&) noexcept = default;
  constexpr Communicator& operator=(Communicator&&) noexcept = default;

  /// Makes the backend and with it the world: all ranks call this, and it waits for all, for no
  /// longer than the configured init timeout. Without a configuration the environment that a
  /// launcher set decides (docs/launching.md).
  template <Creatable C = B>
  static constexpr Result<Communicator> create(const typename C::Config& config = {}) {
    return wrap(B::create(config));
  }

  /// This rank, 0 … world_size() - 1; -1 where `split` left it out.
  constexpr int rank() const { return backend_.rank(); }
  /// Number of ranks.
  constexpr int world_size() const { return backend_.world_size(); }
  /// How often this communicator was rebuilt.
  constexpr std::uint64_t epoch() const { return backend_.epoch(); }

  /// Reduces `buffer` over all ranks, in place. NCCL: ncclAllReduce.
  template <ReducibleInPlace T>
  constexpr Status all_reduce(DeviceSpan<T> buffer, ReduceOp op = ReduceOp::sum,
                              Stream stream = {}) {
    Status bad = check(Operation::all_reduce, [&](auto& c) { c.buffer("buffer", buffer); });
    if (!bad.ok()) return bad;
    return backend_.all_reduce(
        {buffer.data(), buffer.data(), buffer.size(), element_type<T>, op, stream});
  }

  /// Reduces `send` over all ranks into `recv`, of the same size.
  template <class S, Reducible T>
    requires detail::SendOf<S, T>
  constexpr Result<DeviceSpan<S>> all_reduce(DeviceSpan<S> send, DeviceSpan<T> recv,
                                             ReduceOp op = ReduceOp::sum, Stream stream = {}) {
    Status bad = check(Operation::all_reduce, [&](auto& c) { detail::same_shape(c, send, recv); });
    if (!bad.ok()) return bad;
    return result(
        send, recv,
        backend_.all_reduce({send.data(), recv.data(), recv.size(), element_type<T>, op, stream}));
  }

  /// Reduces `buffer` in place on the communicator's own stream, after what is queued on `compute`;
  /// what is queued on `compute` later waits for it; the host does not.
  template <ReducibleInPlace T>
  constexpr Status all_reduce_async(DeviceSpan<T> buffer, ReduceOp op = ReduceOp::sum,
                                    Stream compute = {}) {
    Status bad = check(Operation::all_reduce_async, [&](auto& c) { c.buffer("buffer", buffer); });
    if (!bad.ok()) return bad;
    return backend_.all_reduce_async({buffer.data(), buffer.size(), element_type<T>, op, compute});
  }

  /// As `all_reduce_async`, but `compute` waits only from `ticket.join(compute)` on, so that it can
  /// compute meanwhile. Several tickets may be in flight; `buffer` is not to be touched before the
  /// join. A ticket dropped without a join orders nothing.
  template <ReducibleInPlace T>
  constexpr Result<Ticket> all_reduce_deferred(DeviceSpan<T> buffer, ReduceOp op = ReduceOp::sum,
                                               Stream compute = {}) {
    Status bad =
        check(Operation::all_reduce_deferred, [&](auto& c) { c.buffer("buffer", buffer); });
    if (!bad.ok()) return bad;
    return backend_.all_reduce_deferred(
        {buffer.data(), buffer.size(), element_type<T>, op, compute});
  }

  /// Gathers every rank's `send` into `recv`, of world_size() times its size, in rank order. In
  /// place: `send` is this rank's block of `recv`. NCCL: ncclAllGather.
  template <class S, Transportable T>
    requires detail::SendOf<S, T>
  constexpr Result<DeviceSpan<S>> all_gather(DeviceSpan<S> send, DeviceSpan<T> recv,
                                             Stream stream = {}) {
    Status bad = check(Operation::all_gather,
                       [&](auto& c) { detail::block_of(c, "send", send, "recv", recv); });
    if (!bad.ok()) return bad;
    return result(send, recv,
                  backend_.all_gather({send.data(), recv.data(), detail::moved_count(send),
                                       detail::moved_type<T>, stream}));
  }

  /// Reduces `send`, of world_size() times the size of `recv`, and gives each rank its block. In
  /// place: `recv` is this rank's block of `send`. NCCL: ncclReduceScatter.
  template <class S, Reducible T>
    requires detail::SendOf<S, T>
  constexpr Result<DeviceSpan<S>> reduce_scatter(DeviceSpan<S> send, DeviceSpan<T> recv,
                                                 ReduceOp op = ReduceOp::sum, Stream stream = {}) {
    Status bad = check(Operation::reduce_scatter,
                       [&](auto& c) { detail::block_of(c, "recv", recv, "send", send); });
    if (!bad.ok()) return bad;
    return result(send, recv,
                  backend_.reduce_scatter(
                      {send.data(), recv.data(), recv.size(), element_type<T>, op, stream}));
  }

  /// Copies root's `buffer` to all, and waits until it is there, for no longer than the
  /// communicator's collective timeout. NCCL: ncclBroadcast.
  template <Receivable T>
  constexpr Status broadcast(DeviceSpan<T> buffer, int root, Stream stream = {}) {
    Status bad =
        check(Operation::broadcast, [&](auto& c) { c.buffer("buffer", buffer).root(root); });
    if (!bad.ok()) return bad;
    return backend_.broadcast(
        {buffer.data(), detail::moved_count(buffer), detail::moved_type<T>, root, stream});
  }

  /// As `broadcast`, without the wait.
  template <Receivable T>
  constexpr Status broadcast_async(DeviceSpan<T> buffer, int root, Stream stream = {}) {
    Status bad =
        check(Operation::broadcast_async, [&](auto& c) { c.buffer("buffer", buffer).root(root); });
    if (!bad.ok()) return bad;
    return backend_.broadcast_async(
        {buffer.data(), detail::moved_count(buffer), detail::moved_type<T>, root, stream});
  }

  /// The worker's side of a broadcast of one `std::uint32_t` that may be hours away: no deadline,
  /// but transport errors and dead peers end it. The root calls `broadcast`; here it is refused.
  constexpr Status recv_command_u32(DeviceSpan<std::uint32_t> buffer, int root,
                                    Stream stream = {}) {
    Status bad = check(Operation::recv_command_u32, [&](auto& c) {
      c.buffer("buffer", buffer).root(root);
      c.that(buffer.size() == 1, "buffer must have exactly one element");
    });
    if (!bad.ok()) return bad;
    return backend_.recv_command_u32({buffer.data(), root, stream});
  }

  /// Reduces `send` into root's `recv`, of the same size; elsewhere `recv` may be empty. Returns
  /// the result on root and an empty span elsewhere. NCCL: ncclReduce.
  template <class S, Reducible T>
    requires detail::SendOf<S, T>
  constexpr Result<DeviceSpan<S>> reduce(DeviceSpan<S> send, DeviceSpan<T> recv, ReduceOp op,
                                         int root, Stream stream = {}) {
    Status bad = check(Operation::reduce, [&](auto& c) {
      c.buffer("send", send).root(root);
      if (c.rank() == root) detail::same_shape(c, send, recv);
    });
    if (!bad.ok()) return bad;
    return result_on(root, send, recv,
                     backend_.reduce({send.data(), recv.data(), send.size(), element_type<T>, op,
                                      root, stream}));
  }

  /// Gathers every rank's `send` into root's `recv`, in rank order; elsewhere `recv` may be empty.
  /// Returns the result on root and an empty span elsewhere. NCCL 2.28: ncclGather.
  template <class S, Transportable T>
    requires detail::SendOf<S, T>
  constexpr Result<DeviceSpan<S>> gather(DeviceSpan<S> send, DeviceSpan<T> recv, int root,
                                         Stream stream = {}) {
    Status bad = check(Operation::gather, [&](auto& c) {
      c.buffer("send", send).root(root);
      if (c.rank() == root) detail::block_of(c, "send", send, "recv", recv);
    });
    if (!bad.ok()) return bad;
    return result_on(root, send, recv,
                     backend_.gather({send.data(), recv.data(), detail::moved_count(send),
                                      detail::moved_type<T>, root, stream}));
  }

  /// Gives each rank its block of root's `send`; elsewhere `send` may be empty. NCCL 2.28:
  /// ncclScatter.
  template <class S, Transportable T>
    requires detail::SendOf<S, T>
  constexpr Result<DeviceSpan<S>> scatter(DeviceSpan<S> send, DeviceSpan<T> recv, int root,
                                          Stream stream = {}) {
    Status bad = check(Operation::scatter, [&](auto& c) {
      c.buffer("recv", recv).root(root);
      if (c.rank() == root) detail::block_of(c, "recv", recv, "send", send);
    });
    if (!bad.ok()) return bad;
    return result(send, recv,
                  backend_.scatter({send.data(), recv.data(), detail::moved_count(recv),
                                    detail::moved_type<T>, root, stream}));
  }

  /// Sends block i of `send` to rank i and receives rank i's into block i of `recv`. Sizes are
  /// equal and multiples of world_size(). There is no in-place form. NCCL 2.28: ncclAlltoAll.
  template <class S, Transportable T>
    requires detail::SendOf<S, T>
  constexpr Result<DeviceSpan<S>> all_to_all(DeviceSpan<S> send, DeviceSpan<T> recv,
                                             Stream stream = {}) {
    // No rank of a communicator of nobody gets further than the backend, which refuses all.
    const auto world = static_cast<std::size_t>(world_size() > 0 ? world_size() : 1);
    Status bad = check(Operation::all_to_all, [&](auto& c) {
      c.buffer("send", send).buffer("recv", recv);
      c.same_size("send", send.size(), "recv", recv.size());
      c.divisible("send", send.size(), world);
      c.apart("send", send, "recv", recv);
    });
    if (!bad.ok()) return bad;
    return result(send, recv,
                  backend_.all_to_all({send.data(), recv.data(), detail::moved_count(send) / world,
                                       detail::moved_type<T>, stream}));
  }

  /// As `all_to_all` with blocks of any size, which lie densely in rank order on both sides. The
  /// counts are in host memory, world_size() each, and are read during the call. What rank i sends
  /// to rank j must be what j receives from i.
  template <class S, Countable T>
    requires detail::SendOf<S, T>
  constexpr Result<DeviceSpan<S>> all_to_all_v(DeviceSpan<S> send, const std::size_t* send_counts,
                                               DeviceSpan<T> recv, const std::size_t* recv_counts,
                                               Stream stream = {}) {
    Status bad = check(Operation::all_to_all_v, [&](auto& c) {
      c.buffer("send", send).buffer("recv", recv);
      c.counts("send", send.size(), send_counts).counts("recv", recv.size(), recv_counts);
      c.apart("send", send, "recv", recv);
    });
    if (!bad.ok()) return bad;
    return result(send, recv,
                  backend_.all_to_all_v({send.data(), send_counts, recv.data(), recv_counts,
                                         detail::moved_type<T>, stream}));
  }

  /// Sends to `dest`, which calls `recv_from` with the same size. May wait for it. NCCL: ncclSend.
  template <Transportable T>
  constexpr Status send_to(DeviceSpan<T> buffer, int dest, Stream stream = {}) {
    Status bad =
        check(Operation::send_to, [&](auto& c) { c.buffer("buffer", buffer).peer("dest", dest); });
    if (!bad.ok()) return bad;
    return backend_.send_to(
        {buffer.data(), detail::moved_count(buffer), detail::moved_type<T>, dest, stream});
  }

  /// Receives from `source`, which calls `send_to` with the same size. NCCL: ncclRecv.
  template <Receivable T>
  constexpr Status recv_from(DeviceSpan<T> buffer, int source, Stream stream = {}) {
    Status bad = check(Operation::recv_from,
                       [&](auto& c) { c.buffer("buffer", buffer).peer("source", source); });
    if (!bad.ok()) return bad;
    return backend_.recv_from(
        {buffer.data(), detail::moved_count(buffer), detail::moved_type<T>, source, stream});
  }

  /// Sends to `dest` and receives from `source` at once; neither order can deadlock.
  template <class S, Transportable T>
    requires detail::SendOf<S, T>
  constexpr Result<DeviceSpan<S>> send_recv(DeviceSpan<S> send, int dest, DeviceSpan<T> recv,
                                            int source, Stream stream = {}) {
    Status bad = check(Operation::send_recv, [&](auto& c) {
      c.buffer("send", send).buffer("recv", recv).peer("dest", dest).peer("source", source);
      c.apart("send", send, "recv", recv);
    });
    if (!bad.ok()) return bad;
    return result(
        send, recv,
        backend_.send_recv({send.data(), detail::moved_count(send), dest, recv.data(),
                            detail::moved_count(recv), source, detail::moved_type<T>, stream}));
  }

  /// Orders what follows on `stream` after every rank's arrival. The host does not wait.
  constexpr Status barrier(Stream stream = {}) { return backend_.barrier({stream}); }

  /// Waits until every rank has called it.
  constexpr Status barrier_wait(Timeout timeout = {}) { return backend_.barrier_wait({timeout}); }

  constexpr Status group_start() { return backend_.group_start({}); }
  constexpr Status group_end() { return backend_.group_end({}); }

  /// A guard that holds a group open; see group.h.
  constexpr Group<B> group() { return Group<B>(backend_); }

  /// Registers `[buffer, buffer + bytes)` with the transport; 0 where there is nothing to register.
  template <Receivable T>
  constexpr Result<RegistrationHandle> register_buffer(DeviceSpan<T> buffer) {
    Status bad = check(Operation::register_buffer, [&](auto& c) { c.buffer("buffer", buffer); });
    if (!bad.ok()) return bad;
    return backend_.register_buffer({buffer.data(), buffer.size_bytes()});
  }
  constexpr Status deregister_buffer(RegistrationHandle handle) {
    return backend_.deregister_buffer({handle});
  }

  /// As `register_buffer`, for as long as the returned guard lives.
  template <Receivable T>
  constexpr Result<Registration<B>> registered(DeviceSpan<T> buffer) {
    Result<RegistrationHandle> handle = register_buffer(buffer);
    if (!handle.ok()) return std::move(handle).status();
    return Registration<B>(backend_, *handle);
  }

  /// Memory that peers can reach; every rank calls with the same size. See symmetric_buffer.h.
  constexpr Result<void*> symmetric_alloc(std::size_t bytes) {
    return backend_.symmetric_alloc({bytes});
  }
  constexpr Status symmetric_free(void* buffer) { return backend_.symmetric_free({buffer}); }

  /// As `symmetric_alloc`, for as long as the returned guard lives.
  template <Transportable T>
  constexpr Result<SymmetricBuffer<B, T>> symmetric_buffer(std::size_t count) {
    Status bad = check(Operation::symmetric_alloc,
                       [&](auto& c) { c.template fits<T>("the buffer", nullptr, count); });
    if (!bad.ok()) return bad;
    Result<void*> memory = backend_.symmetric_alloc({count * sizeof(T)});
    if (!memory.ok()) return std::move(memory).status();
    return SymmetricBuffer<B, T>(backend_, *memory, count);
  }

  /// An engine's own `bf16_add_inplace` (a `CUfunction`); without one comm's is used.
  constexpr Status set_add_kernel(CUfunc_st* kernel) { return backend_.set_add_kernel({kernel}); }

  /// New communicators, one for each color, ranks ordered by key and then by old rank. All ranks
  /// call it. With `kNoColor` this rank joins none and gets one of rank -1 that refuses all.
  [[gnu::always_inline]] constexpr Result<Communicator> split(int color, int key) {
    Status bad = check(Operation::split, [&](auto& c) {
      c.that(color >= kNoColor, "color is negative; use kNoColor (-1) to join no communicator");
    });
    if (!bad.ok()) return bad;
    return wrap(backend_.split({color, key}));
  }

  /// A communicator without the `excluded` ranks, in the old order. Only the ranks that stay call.
  [[gnu::always_inline]] constexpr Result<Communicator> shrink(
      std::initializer_list<int> excluded) {
    return shrink(excluded.begin(), excluded.size());
  }
  [[gnu::always_inline]] constexpr Result<Communicator> shrink(const int* excluded,
                                                               std::size_t count) {
    Status bad = check(Operation::shrink, [&](auto& c) { c.excluded(excluded, count); });
    if (!bad.ok()) return bad;
    return wrap(backend_.shrink({excluded, count}));
  }

  /// Waits until what was submitted on `stream` is done, watching health meanwhile.
  constexpr Status synchronize(Stream stream = {}, Timeout timeout = {}) {
    return backend_.synchronize({stream, timeout});
  }

  /// Whether operations are accepted. Any thread; never waits.
  constexpr bool is_healthy() const { return backend_.is_healthy(); }

  /// Rebuilds the communicator after a failure; every rank calls it.
  constexpr Status attempt_reconnect() { return backend_.attempt_reconnect({}); }

  /// Gives up: pending and later operations fail, on peers too. Any thread.
  constexpr Status abort() { return backend_.abort({}); }

  constexpr B& backend() { return backend_; }
  constexpr const B& backend() const { return backend_; }

 private:
  // Inlined also where compilers find a stack of decorators too deep for it, so that nothing is left.
  [[gnu::always_inline]] static constexpr Result<Communicator> wrap(Result<B> backend) {
    if (!backend.ok()) return std::move(backend).status();
    return Communicator(std::move(*backend));
  }
};

}  // namespace comm
