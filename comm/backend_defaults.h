#pragma once

/// `BackendDefaults<Derived>` gives a backend the operations that have a sound default, so that a
/// small backend stays small. A backend overrides one by declaring a member of the same name.
///
/// Required of `Derived`: rank, world_size, all_reduce, all_gather, reduce_scatter, broadcast,
/// reduce, gather, scatter, all_to_all, all_to_all_v, send_to, recv_from, send_recv, barrier.
///
/// `split` and `shrink`, symmetric memory: refused as unsupported. The asynchronous forms run the
/// synchronous ones. Groups, registration, the add kernel and health: nothing to do.

#include "comm/backend.h"

namespace comm {

/// The ticket of work that is already done.
struct CompletedTicket {
  constexpr Status join(Stream) { return {}; }
};

namespace detail {

inline constexpr StatusError kRootReceivesNoCommand{
    StatusCode::invalid_argument, true, 0,
    "recv_command_u32: the root sends commands and cannot receive them; call broadcast on the "
    "root and recv_command_u32 on the other ranks"};
inline constexpr StatusError kNoSymmetricMemory{
    StatusCode::unsupported, true, 0,
    "symmetric_alloc: this backend has no memory that other ranks can reach; allocate an "
    "ordinary buffer"};
inline constexpr StatusError kNoSplit{StatusCode::unsupported, true, 0,
                                      "split: this backend cannot be divided"};
inline constexpr StatusError kNoShrink{StatusCode::unsupported, true, 0,
                                       "shrink: this backend cannot go on with fewer ranks"};

}  // namespace detail

template <class Derived>
class BackendDefaults {
 public:
  static constexpr bool moves_data = true;
  using Ticket = CompletedTicket;

  constexpr std::uint64_t epoch() const { return 0; }

  constexpr Status all_reduce_async(const ops::AllReduceAsync& op) {
    return self().all_reduce({op.buffer, op.buffer, op.count, op.type, op.op, op.stream});
  }
  constexpr Result<typename BackendDefaults::Ticket> all_reduce_deferred(
      const ops::AllReduceDeferred& op) {
    Status done = self().all_reduce({op.buffer, op.buffer, op.count, op.type, op.op, op.stream});
    if (!done.ok()) return done;
    return CompletedTicket{};
  }
  constexpr Status broadcast_async(const ops::BroadcastAsync& op) {
    return self().broadcast({op.buffer, op.count, op.type, op.root, op.stream});
  }
  constexpr Status recv_command_u32(const ops::RecvCommandU32& op) {
    if (self().rank() == op.root) return Status(detail::kRootReceivesNoCommand);
    return self().broadcast({op.buffer, 1, DataType::u32, op.root, op.stream});
  }
  constexpr Status barrier_wait(const ops::BarrierWait&) { return self().barrier({}); }
  constexpr Status synchronize(const ops::Synchronize&) { return {}; }

  constexpr Status group_start(const ops::GroupStart&) { return {}; }
  constexpr Status group_end(const ops::GroupEnd&) { return {}; }

  constexpr Result<RegistrationHandle> register_buffer(const ops::RegisterBuffer&) {
    return RegistrationHandle{0};
  }
  constexpr Status deregister_buffer(const ops::DeregisterBuffer&) { return {}; }
  constexpr Result<void*> symmetric_alloc(const ops::SymmetricAlloc&) {
    return Status(detail::kNoSymmetricMemory);
  }
  constexpr Status symmetric_free(const ops::SymmetricFree&) {
    return Status(detail::kNoSymmetricMemory);
  }
  constexpr Status set_add_kernel(const ops::SetAddKernel&) { return {}; }

  constexpr Result<Derived> split(const ops::Split&) { return Status(detail::kNoSplit); }
  constexpr Result<Derived> shrink(const ops::Shrink&) { return Status(detail::kNoShrink); }

  constexpr bool is_healthy() const { return true; }
  constexpr Status attempt_reconnect(const ops::AttemptReconnect&) { return {}; }
  constexpr Status abort(const ops::Abort&) { return {}; }

 protected:
  constexpr BackendDefaults() = default;

 private:
  constexpr Derived& self() { return static_cast<Derived&>(*this); }
};

}  // namespace comm
