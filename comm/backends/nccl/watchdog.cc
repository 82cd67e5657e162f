#include <pthread.h>

#include <algorithm>

#include "comm/backends/nccl/state.h"

namespace comm::detail::nccl {
namespace {

/// A call that is inside NCCL for longer than an operation may take, or that goes on although the
/// communicator has failed: only an abort gets it out. NCCL's own documentation allows that on
/// non-blocking communicators alone, where no call stays inside; see docs/nccl.md.
/// `since` is when the call that is marked was first seen.
void look_after(State& state, Clock::time_point& since) {
  if (state.is_open()) state.look(Operation::synchronize).ignore();
  if (state.is_open()) state.answer_calls();
  if (!state.is_open()) {
    // Who is lost is known; in other cases those that wait are told more than that time is up.
    const bool is_lost = state.first_cause().code() == StatusCode::peer_lost;
    if (!is_lost) state.call_roll();
    if (state.config.abort_on_failure) state.abort_native().ignore();
    if (is_lost) state.call_roll();
  }
  const HotState* const self = &state;
  const auto now = Clock::now();
  if (!state.lock->is_marked(self)) {
    state.lock->mark(self);
    since = now;
    return;
  }
  const bool overdue = now - since > state.config.collective_timeout;
  if (overdue && state.lock->operation() != Operation::recv_command_u32 && state.is_open()) {
    Status late = state.error(StatusCode::timeout, 0, state.lock->operation(),
                              "inside NCCL for more than %lld ms; a rank may be missing, or may "
                              "have called another operation",
                              static_cast<long long>(state.config.collective_timeout.count()));
    state.poison(std::move(late)).ignore();
  }
  // One more tick, for a call that leaves by itself. A shrink is what the failure led to.
  if (!state.is_open() && state.lock->operation() != Operation::shrink)
    state.abort_native().ignore();
}

}  // namespace

void State::begin_counts() noexcept {
  __atomic_store_n(&submitted, std::uint64_t{0}, __ATOMIC_RELAXED);
  messages.store(0);
  last_entered.store(Operation::attempt_reconnect);
  entered_at.store(0);
}

Status State::start_watchdog() {
  watchdog_stops = false;
  begin_counts();
  slow.waited_ms.store(0);
  slow.answered = slow.asked = 0;
  roll.begin_epoch();
  return watchdog.start([this] {
    using std::chrono::milliseconds;
    watchdog_thread.store(this_thread());
    (void)::pthread_setname_np(::pthread_self(), "comm-watchdog");
    const auto tick = std::clamp(config.collective_timeout / 8, milliseconds(5), milliseconds(100));
    Clock::time_point since = Clock::now();
    std::uint64_t seen = 0;
    bool is_quiet = false;
    std::unique_lock<std::mutex> guard(watchdog_mutex);
    while (!watchdog_stops) {
      // Half as often where nothing is submitted: an idle worker is to take no core, not even this.
      const auto asleep = Clock::now();
      const milliseconds asked = is_quiet ? 2 * tick : tick;
      watchdog_wakes.wait_for(guard, asked);
      standstill.woke(asleep, asked);
      if (watchdog_stops) return;
      guard.unlock();
      look_after(*this, since);
      const std::uint64_t now = collectives() + messages.load(std::memory_order_relaxed);
      is_quiet = now == seen && is_open() && !lock->is_marked(static_cast<const HotState*>(this));
      seen = now;
      guard.lock();
    }
  });
}

void State::stop_watchdog() noexcept {
  {
    const std::lock_guard<std::mutex> guard(watchdog_mutex);
    watchdog_stops = true;
  }
  watchdog_wakes.notify_all();
  watchdog.join();
  roll.give_up();
}

}  // namespace comm::detail::nccl
