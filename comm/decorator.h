#pragma once

/// `Decorator<Derived, B>` wraps a policy around backend `B` and is a backend itself: it forwards
/// every operation through one hook, `around(op, next)`, where `op` is the struct of operations.h
/// and `next()` runs it on `B`. Decorators nest: `Communicator<Timed<Logged<Host>>>`. There is no
/// virtual call, and over a backend that moves no data the hook is not compiled at all.
///
///     template <comm::Backend B>
///     class Counted : public comm::Decorator<Counted<B>, B> {
///      public:
///       using comm::Decorator<Counted, B>::Decorator;
///       template <class Op, class Next>
///       constexpr auto around(const Op&, Next next) {
///         ++calls_;
///         return next();   // a Status, or a Result where the operation has a value
///       }
///      private:
///       std::uint64_t calls_ = 0;
///     };
///
/// The hook sees `Op::operation`, the fields of `op`, and `comm::info_of(op)`. It returns what `next()`
/// returns, or an error of its own. One operation alone is changed by declaring its member in
/// `Derived`, which then calls `inner()`. `split` and `shrink` wrap the new backend with
/// `Derived::wrap(inner)`, to be declared where settings are to be handed down. Where `B` has a
/// `Config` and `create`, so has the decorator, and so with the optional capabilities.
/// docs/decorators.md has a whole one.
///
/// Threads: the hook runs on the thread that called. `abort` and `is_healthy`, which any thread may
/// call, go past it, so that a hook needs no lock; `join` of a ticket goes past it, too.

#include <utility>

#include "comm/backend.h"

namespace comm {

namespace detail {

/// `Config` and `create` of a decorator, where what it decorates has them.
template <class Derived, class B>
class DecoratedCreation {};

template <class Derived, Creatable B>
class DecoratedCreation<Derived, B> {
 public:
  using Config = typename B::Config;

  static constexpr Result<Derived> create(const Config& config) {
    Result<B> inner = B::create(config);
    if (!inner.ok()) return std::move(inner).status();
    return Derived(std::move(*inner));
  }
};

}  // namespace detail

template <class Derived, Backend B>
class Decorator : public detail::DecoratedCreation<Derived, B> {
 public:
  static constexpr bool moves_data = B::moves_data;
  using Ticket = typename B::Ticket;
  using Inner = B;

  constexpr explicit Decorator(B inner) noexcept : inner_(std::move(inner)) {}

  constexpr B& inner() { return inner_; }
  constexpr const B& inner() const { return inner_; }

  constexpr int rank() const { return inner_.rank(); }
  constexpr int world_size() const { return inner_.world_size(); }
  constexpr std::uint64_t epoch() const { return inner_.epoch(); }
  constexpr bool is_healthy() const { return inner_.is_healthy(); }
  constexpr Status abort(const ops::Abort& op) { return inner_.abort(op); }

  // Optional capabilities, where `B` has them.
  constexpr auto log_settings() const requires requires(const B& b) { b.log_settings(); }
  { return inner_.log_settings(); }
  constexpr Status exchange(const Exchange& exchange) requires HasAgreement<B> {
    return inner_.exchange(exchange);
  }
  constexpr Status declare_unhealthy(Operation operation,
                                     const Status& cause) requires HasAgreement<B> {
    return inner_.declare_unhealthy(operation, cause);
  }
  static constexpr bool uses_host_memory = UsesHostMemory<B>;

  // What runs the operation is inlined at any depth: over a backend that moves no data nothing is to be
  // left of a whole stack, and compilers give up sooner than people nest.
  constexpr Status all_reduce(const ops::AllReduce& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.all_reduce(op); });
  }
  constexpr Status all_reduce_async(const ops::AllReduceAsync& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.all_reduce_async(op); });
  }
  constexpr Result<Ticket> all_reduce_deferred(const ops::AllReduceDeferred& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.all_reduce_deferred(op); });
  }
  constexpr Status all_gather(const ops::AllGather& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.all_gather(op); });
  }
  constexpr Status reduce_scatter(const ops::ReduceScatter& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.reduce_scatter(op); });
  }
  constexpr Status broadcast(const ops::Broadcast& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.broadcast(op); });
  }
  constexpr Status broadcast_async(const ops::BroadcastAsync& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.broadcast_async(op); });
  }
  constexpr Status recv_command_u32(const ops::RecvCommandU32& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.recv_command_u32(op); });
  }
  constexpr Status reduce(const ops::Reduce& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.reduce(op); });
  }
  constexpr Status gather(const ops::Gather& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.gather(op); });
  }
  constexpr Status scatter(const ops::Scatter& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.scatter(op); });
  }
  constexpr Status all_to_all(const ops::AllToAll& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.all_to_all(op); });
  }
  constexpr Status all_to_all_v(const ops::AllToAllV& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.all_to_all_v(op); });
  }
  constexpr Status send_to(const ops::SendTo& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.send_to(op); });
  }
  constexpr Status recv_from(const ops::RecvFrom& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.recv_from(op); });
  }
  constexpr Status send_recv(const ops::SendRecv& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.send_recv(op); });
  }
  constexpr Status barrier(const ops::Barrier& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.barrier(op); });
  }
  constexpr Status barrier_wait(const ops::BarrierWait& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.barrier_wait(op); });
  }
  constexpr Status group_start(const ops::GroupStart& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.group_start(op); });
  }
  constexpr Status group_end(const ops::GroupEnd& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.group_end(op); });
  }
  constexpr Result<RegistrationHandle> register_buffer(const ops::RegisterBuffer& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.register_buffer(op); });
  }
  constexpr Status deregister_buffer(const ops::DeregisterBuffer& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.deregister_buffer(op); });
  }
  constexpr Result<void*> symmetric_alloc(const ops::SymmetricAlloc& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.symmetric_alloc(op); });
  }
  constexpr Status symmetric_free(const ops::SymmetricFree& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.symmetric_free(op); });
  }
  constexpr Status set_add_kernel(const ops::SetAddKernel& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.set_add_kernel(op); });
  }
  [[gnu::always_inline]] constexpr Result<Derived> split(const ops::Split& op) {
    return wrapped(pass(
        op, [&]() __attribute__((always_inline)) { return inner_.split(op); }));
  }
  [[gnu::always_inline]] constexpr Result<Derived> shrink(const ops::Shrink& op) {
    return wrapped(pass(
        op, [&]() __attribute__((always_inline)) { return inner_.shrink(op); }));
  }
  constexpr Status synchronize(const ops::Synchronize& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.synchronize(op); });
  }
  constexpr Status attempt_reconnect(const ops::AttemptReconnect& op) {
    return pass(
        op, [&]() __attribute__((always_inline)) { return inner_.attempt_reconnect(op); });
  }

  /// The hook where `Derived` has none.
  template <class Op, class Next>
  constexpr auto around(const Op&, Next next) {
    return next();
  }

  /// What `split` and `shrink` return, around the new backend.
  constexpr Derived wrap(B inner) const { return Derived(std::move(inner)); }

 private:
  template <class Op, class Next>
  [[gnu::always_inline]] constexpr auto pass(const Op& op, Next next) -> decltype(next()) {
    if constexpr (B::moves_data) {
      return static_cast<Derived&>(*this).around(op, next);
    } else {
      return next();
    }
  }

  [[gnu::always_inline]] constexpr Result<Derived> wrapped(Result<B> made) const {
    if (!made.ok()) return std::move(made).status();
    return static_cast<const Derived&>(*this).wrap(std::move(*made));
  }

  [[no_unique_address]] B inner_;
};

}  // namespace comm
