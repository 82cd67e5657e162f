#pragma once

/// `Deadline` is a point in time, or none. `Pause` is what a loop does between two looks: it spins
/// while the wait is young, then yields, then sleeps, each time for a part of what it has waited
/// already, up to a cap: a wait of microseconds costs microseconds, one of hours costs no core. The
/// windows are those of a `WaitPolicy` (config.h).

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

#include "comm/timeout.h"
#include "comm/wait_policy.h"

namespace comm::detail::nccl {

using Clock = std::chrono::steady_clock;

class Deadline {
 public:
  explicit Deadline(Timeout timeout) : start_(Clock::now()) {
    const std::int64_t n = timeout.nanoseconds_or(0);
    is_never_ = timeout.is_never() || n > kCenturies;
    length_ = std::chrono::nanoseconds(is_never_ ? kCenturies : n);
  }

  bool is_never() const { return is_never_; }
  bool passed() const { return !is_never_ && Clock::now() - start_ >= length_; }
  std::chrono::nanoseconds waited() const { return Clock::now() - start_; }
  std::chrono::milliseconds remaining() const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(length_ - waited());
    return std::max(left, std::chrono::milliseconds(0));
  }
  Clock::time_point when() const { return start_ + length_; }
  /// In milliseconds, for messages.
  long long length_ms() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(length_).count();
  }

 private:
  static constexpr std::int64_t kCenturies = std::int64_t{1} << 62;

  Clock::time_point start_;
  std::chrono::nanoseconds length_{};
  bool is_never_ = false;
};

class Pause {
 public:
  Pause() = default;
  explicit Pause(const WaitPolicy& policy) : policy_(policy) {}

  /// True about once a millisecond, and five times a second in a long wait: time for a look that costs
  /// more than the others.
  bool once_more() {
    const auto waited = Clock::now() - start_;
    if (waited < policy_.spin) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    } else if (waited < policy_.yield) {
      ::sched_yield();
    } else {
      // An eighth of a short wait, 0.4 % of a long one: waking up costs some 25 us of a core.
      const Clock::duration part = std::min<Clock::duration>(
          {std::max(std::min<Clock::duration>(waited / 8, std::chrono::microseconds(500)),
                    waited / 250),
           policy_.longest_sleep, std::chrono::milliseconds(999)});
      const timespec t{0, std::chrono::duration_cast<std::chrono::nanoseconds>(part).count()};
      ::nanosleep(&t, nullptr);
    }
    const Clock::duration between = std::clamp<Clock::duration>(
        waited / 20, std::chrono::milliseconds(1), std::chrono::milliseconds(200));
    if (waited - last_look_ < between) return false;
    last_look_ = waited;
    return true;
  }

 private:
  WaitPolicy policy_;
  Clock::time_point start_ = Clock::now();
  Clock::duration last_look_{};
};

}  // namespace comm::detail::nccl
