#include "comm/backends/nccl/entry.h"

#include "comm/backends/nccl/native.h"

namespace comm::detail::nccl {

Entry::Entry(State& state, Operation operation, bool even_unhealthy)
    : state_(state), operation_(operation), in_group_(open_groups() > 0) {
  enter(even_unhealthy);
}

void Entry::enter(bool even_unhealthy) {
  const auto refused = [&] { return !even_unhealthy && !state_.is_open(); };
  const auto may_go = [&] {
    const void* owner = state_.group_owner.load(std::memory_order_acquire);
    return (owner == nullptr || owner == this_thread()) && state_.try_lock(operation_);
  };
  const Deadline deadline = state_.collective_deadline();
  Pause pause;
  while (!refused() && !may_go()) {
    pause.once_more();
    if (!deadline.passed()) continue;
    status_ = state_.poison_and_name(state_.error(
        StatusCode::timeout, 0, operation_,
        "waited %lld ms for another thread that is inside NCCL on this GPU, in %s, or has a group "
        "open; communicators that share a GPU must be used in the same order on all ranks",
        deadline.length_ms(), to_string(state_.lock->operation())));
    return;
  }
  if (refused()) {
    status_ = state_.refuse(operation_);
    return;
  }
  // From here on nobody frees the native communicator but an abort that finds this thread stuck.
  comm_ = state_.comm.load(std::memory_order_relaxed);
  if (comm_ == nullptr || refused()) {
    state_.lock->unlock();
    status_ = state_.refuse(operation_);
    return;
  }
  is_inside_ = true;
  switch (operation_) {
    case Operation::register_buffer:
    case Operation::deregister_buffer:
    case Operation::symmetric_free: break;  // Each rank's own affair.
    case Operation::send_to:
    case Operation::recv_from:
    case Operation::send_recv: state_.messages.fetch_add(1, std::memory_order_relaxed); break;
    default: state_.count();
  }
  if (operation_ != Operation::register_buffer && operation_ != Operation::deregister_buffer) {
    state_.last_entered.store(operation_);
    state_.entered_at.store(state_.collectives());
  }
  status_ = state_.settle(comm_, operation_, deadline);
  if (!status_.ok()) leave();
}

void Entry::leave() noexcept {
  if (!is_inside_) return;
  is_inside_ = false;
  state_.lock->unlock();
}

Entry::Entry(State& state, Operation operation, ncclComm_t inside) noexcept
    : state_(state),
      operation_(operation),
      comm_(inside),
      is_inside_(true),
      in_group_(open_groups() > 0) {}

Status Entry::outcome(ncclResult_t result, const char* call) {
  // Freed by an abort: what it was aborted for is the error, and there is nothing left to ask.
  const ncclComm_t now = state_.comm.load(std::memory_order_acquire);
  if (now == nullptr || now != comm_) return state_.first_cause(true);
  if (result == ncclInProgress) {
    state_.gate.fetch_or(kSettles, std::memory_order_relaxed);
  } else if (result != ncclSuccess) {
    return state_.poison(state_.nccl_error(result, operation_, call, peers_));
  }
  // In a group nothing is in progress before its end.
  if (in_group_ || (state_.gate.load(std::memory_order_relaxed) & kSettles) == 0) return {};
  return state_.settle(comm_, operation_, state_.collective_deadline());
}

Status Entry::settle(ncclResult_t result, const char* call) {
  Status came = outcome(result, call);
  if (!came.ok() && in_group_ && state_.group_error.ok()) state_.group_error = came.copy();
  return came;
}

}  // namespace comm::detail::nccl
