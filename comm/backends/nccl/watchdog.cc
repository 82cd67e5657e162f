#include <algorithm>

#include "comm/backends/nccl/state.h"

namespace comm::detail::nccl {
namespace {

/// What the watchdog has seen of the call that is inside NCCL.
struct Watch {
  std::uint32_t call = 0;
  Clock::time_point since;
};

/// A call that is inside NCCL for longer than an operation may take, or that goes on although the
/// communicator has failed: only an abort gets it out. NCCL's own documentation allows that on
/// non-blocking communicators alone, where no call stays inside; see docs/nccl.md.
void look_after(State& state, Watch& watch) {
  if (state.is_open()) state.look(Operation::synchronize).ignore();
  if (!state.is_open() && state.config.abort_on_failure) state.abort_native().ignore();
  const std::uint32_t call = state.calls.load(std::memory_order_relaxed);
  const auto now = Clock::now();
  if (!state.is_inside() || call != watch.call) {
    watch = {call, now};
    return;
  }
  const bool overdue = now - watch.since > state.config.collective_timeout;
  if (overdue && state.lock->operation() != Operation::recv_command_u32 && state.is_open()) {
    Status late = state.error(StatusCode::timeout, 0, state.lock->operation(),
                              "inside NCCL for more than %lld ms; a rank may be missing, or may "
                              "have called another operation",
                              static_cast<long long>(state.config.collective_timeout.count()));
    state.poison(std::move(late)).ignore();
  }
  // One more tick, for a call that leaves by itself.
  if (!state.is_open()) state.abort_native().ignore();
}

}  // namespace

Status State::start_watchdog() {
  watchdog_stops = false;
  return watchdog.start([this] {
    using std::chrono::milliseconds;
    const auto tick = std::clamp(config.collective_timeout / 8, milliseconds(5), milliseconds(100));
    Watch watch;
    std::unique_lock<std::mutex> guard(watchdog_mutex);
    while (!watchdog_stops) {
      watchdog_wakes.wait_for(guard, tick);
      if (watchdog_stops) return;
      guard.unlock();
      look_after(*this, watch);
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
}

}  // namespace comm::detail::nccl
