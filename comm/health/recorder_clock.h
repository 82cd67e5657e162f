#pragma once

/// `RecorderClock` reads a counter that costs a few instructions where `clock_gettime` costs a call:
/// the time stamp counter of x86-64 where the processor says that it ticks evenly (invariant TSC),
/// the virtual counter of arm64, and CLOCK_MONOTONIC elsewhere. What a tick is worth is found when a
/// dump is made, from two looks at the operating system's clocks: one when the recorder was made,
/// one at the dump. In between ticks are interpolated, so that the error is that of the looks.
///
/// Thread safety: `ticks` from any thread.

#include <time.h>

#include <cstdint>

#include "comm/language.h"

namespace comm::detail {

/// Three clocks, read as one.
struct ClockReading {
  std::uint64_t ticks = 0;
  std::int64_t monotonic_ns = 0;
  std::int64_t realtime_ns = 0;
};

class RecorderClock {
 public:
  RecorderClock() noexcept;

  /// Whether `counter` may stand for `ticks`.
  bool is_counter() const noexcept { return is_counter_; }

  [[gnu::always_inline]] static std::uint64_t counter() noexcept {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    std::uint64_t value;
    asm volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
#else
    return 0;
#endif
  }

  std::uint64_t ticks() const noexcept {
    return is_counter_ ? counter() : monotonic_ticks();
  }

  ClockReading read() const noexcept;

  /// "tsc", "cntvct" or "clock_monotonic".
  const char* source() const noexcept;

 private:
  static std::uint64_t monotonic_ticks() noexcept;

  bool is_counter_;
};

/// Turns ticks into nanoseconds since the first of two readings.
class TickScale {
 public:
  TickScale(const ClockReading& first, const ClockReading& second) noexcept;

  /// Never negative: another thread's tick may be a little older than the first reading.
  std::uint64_t since_first(std::uint64_t ticks) const noexcept;
  std::uint64_t length(std::uint64_t ticks) const noexcept;

 private:
  std::uint64_t first_;
  double nanoseconds_a_tick_;
};

}  // namespace comm::detail
