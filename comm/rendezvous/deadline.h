#pragma once

/// A point in time by which something must have ended, on the clock that no one can set back.
/// `poll_fd` waits for a descriptor until then, whatever signals arrive.

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>

namespace comm::detail {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

class Deadline {
 public:
  static Deadline in(Milliseconds time) {
    // A hundred years are as good as for ever, and cannot overflow the clock.
    constexpr Milliseconds kLongest = std::chrono::hours(24 * 365 * 100);
    return Deadline(Clock::now() + std::clamp(time, Milliseconds(0), kLongest));
  }
  static Deadline never() { return Deadline(Clock::time_point::max()); }
  constexpr explicit Deadline(Clock::time_point when) : when_(when) {}

  constexpr Clock::time_point when() const { return when_; }
  bool passed() const { return Clock::now() >= when_; }

  /// Rounded up, so that a wait of this length does not end before the deadline.
  Milliseconds remaining() const {
    const Clock::time_point now = Clock::now();
    if (now >= when_) return Milliseconds(0);
    return std::chrono::ceil<Milliseconds>(when_ - now);
  }

  /// As `poll` takes it.
  int poll_timeout() const {
    return static_cast<int>(std::min<Milliseconds::rep>(remaining().count(), INT_MAX));
  }

  Deadline earlier(Deadline other) const { return when_ < other.when_ ? *this : other; }

 private:
  Clock::time_point when_;
};

/// True when `events` (or an error) arrived before the deadline.
inline bool poll_fd(int fd, short events, Deadline deadline) {
  pollfd entry{fd, events, 0};
  for (;;) {
    const int ready = ::poll(&entry, 1, deadline.poll_timeout());
    if (ready > 0) return true;
    if (ready == 0 && deadline.passed()) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

}  // namespace comm::detail
