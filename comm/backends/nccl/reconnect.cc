#include "comm/backends/nccl/state.h"

namespace comm::detail::nccl {
namespace {

/// Keeps other threads out, as an open group does, while the communicator is put together again.
class KeptOut {
 public:
  KeptOut(State& state, const Deadline& deadline) : state_(state) {
    Pause pause;
    const void* nobody = nullptr;
    while (!state_.group_owner.compare_exchange_strong(nobody, this_thread())) {
      nobody = nullptr;
      if (deadline.passed()) return;
      pause.once_more();
    }
    held_ = true;
    state_.gate.fetch_or(kGroup);
  }
  KeptOut(const KeptOut&) = delete;
  KeptOut& operator=(const KeptOut&) = delete;
  ~KeptOut() {
    if (!held_) return;
    state_.gate.fetch_and(~std::uint32_t{kGroup});
    state_.group_owner.store(nullptr, std::memory_order_release);
  }

  bool held() const { return held_; }

 private:
  State& state_;
  bool held_ = false;
};

Status rebuild(State& state, const Deadline& deadline) {
  Status done = state.abort_native();
  if (done.ok()) done = state.channel->rejoin(deadline.remaining());
  if (!done.ok()) return done;
  state.epoch.store(state.channel->epoch());
  done = state.connect(deadline);
  if (done.ok()) done = state.register_again();
  if (!done.ok()) return done;
  {
    const std::lock_guard<std::mutex> guard(state.cause_mutex);
    state.cause = Status();
  }
  state.gate.fetch_and(~std::uint32_t{kUnhealthy});
  done = state.start_watchdog();
  if (done.ok()) done = state.warm_up(deadline);
  if (done.ok()) done = state.channel->barrier(deadline.remaining());
  return done;
}

}  // namespace

Status reconnect(State& state) {
  constexpr Operation kThis = Operation::attempt_reconnect;
  if ((state.gate.load() & kLeftOut) != 0 || state.is_closed) return state.refuse(kThis);
  if (open_groups() > 0)
    return state.error(StatusCode::invalid_argument, 0, kThis,
                       "this thread has a group open; end it first, its error says nothing new");
  const Deadline deadline(state.config.reconnect_timeout);
  const std::unique_lock<std::timed_mutex> one_thread(state.reconnecting, deadline.when());
  if (!one_thread.owns_lock())
    return state.error(StatusCode::timeout, 0, kThis, "another thread is still reconnecting");
  // Another thread may have done it; and what has not failed needs no repair.
  if (state.is_open() && state.look(kThis).ok()) return {};
  if (state.is_derived)
    return state.error(StatusCode::unsupported, 0, kThis,
                       "this communicator was made by split or shrink; reconnect the one it was "
                       "made from, then make it again");
  const KeptOut others(state, deadline);
  if (!others.held())
    return state.error(StatusCode::timeout, 0, kThis, "another thread has a group open");
  state.stop_watchdog();
  Status done = rebuild(state, deadline);
  if (done.ok()) return {};
  // Half a communicator is none: the next attempt begins anew.
  if (state.is_open()) state.poison(done.copy()).ignore();
  state.stop_watchdog();
  state.abort_native().ignore();
  return done;
}

}  // namespace comm::detail::nccl
