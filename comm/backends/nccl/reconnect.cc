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
  // The same steps as in create, since a rank whose process was started again comes from there.
  done = check_places(state, deadline);
  if (done.ok()) done = state.connect(deadline);
  if (done.ok()) done = state.register_again();
  if (!done.ok()) return done;
  {
    const std::lock_guard<std::mutex> guard(state.cause_mutex);
    state.cause = Status();
  }
  (void)state.told.take_earlier_than(state.channel->epoch());
  state.epoch.store(state.channel->epoch());
  state.begin_counts();
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
  if (state.is_derived)
    return state.error(StatusCode::unsupported, 0, kThis,
                       "this communicator was made by split or shrink; reconnect the one it was "
                       "made from, then make it again");
  const std::uint64_t seen = state.epoch.load();
  const Deadline deadline(state.config.reconnect_timeout);
  const std::unique_lock<TimedMutex> one_thread(state.reconnecting, deadline.when());
  if (!one_thread.owns_lock())
    return state.error(StatusCode::timeout, 0, kThis, "another thread is still reconnecting");
  // Another thread may have done it: meanwhile, or before this one came with the same failure. A
  // rank that knows of no failure takes part all the same: others may be waiting for it.
  const std::uint64_t now = state.epoch.load();
  const bool was_repaired = state.told.take_earlier_than(now);
  if ((now != seen || was_repaired) && state.is_open() && state.look(kThis).ok()) return {};
  const KeptOut others(state, deadline);
  if (!others.held())
    return state.error(StatusCode::timeout, 0, kThis, "another thread has a group open");
  // Whoever is still busy with this epoch, here or on another rank, shall stop.
  if (state.is_open())
    state.poison(state.error(StatusCode::unhealthy, 0, kThis, "this rank reconnects")).ignore();
  state.call_roll();
  state.stop_watchdog();
  state.say(LogLevel::warn, "reconnects");
  Status done = state.located(rebuild(state, deadline), kThis);
  if (done.ok()) state.say(LogLevel::warn, "reconnected");
  if (done.ok()) return {};
  state.say(LogLevel::error, "could not reconnect: %s", done.message());
  // Half a communicator is none: the next attempt begins anew. The others need not wait for it.
  if (state.is_open()) state.poison(done.copy()).ignore();
  state.channel->notify(done.message());
  state.stop_watchdog();
  state.abort_native().ignore();
  return done;
}

}  // namespace comm::detail::nccl
