#include "comm/health/recorder_clock.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace comm::detail {
namespace {

std::int64_t nanoseconds(clockid_t clock) noexcept {
  timespec t{};
  ::clock_gettime(clock, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

bool has_even_counter() noexcept {
#if defined(__x86_64__)
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1U << 8)) != 0;
#elif defined(__aarch64__)
  return true;  // The architecture says so.
#else
  return false;
#endif
}

}  // namespace

RecorderClock::RecorderClock() noexcept : is_counter_(has_even_counter()) {}

std::uint64_t RecorderClock::monotonic_ticks() noexcept {
  return static_cast<std::uint64_t>(nanoseconds(CLOCK_MONOTONIC));
}

ClockReading RecorderClock::read() const noexcept {
  // The narrowest of a few tries: a thread may be put aside between two looks.
  ClockReading best;
  std::uint64_t narrowest = ~std::uint64_t{0};
  for (int i = 0; i < 5; ++i) {
    ClockReading reading;
    const std::uint64_t before = ticks();
    reading.monotonic_ns = nanoseconds(CLOCK_MONOTONIC);
    reading.realtime_ns = nanoseconds(CLOCK_REALTIME);
    const std::uint64_t width = ticks() - before;
    reading.ticks = before + width / 2;
    if (width >= narrowest) continue;
    narrowest = width;
    best = reading;
  }
  return best;
}

const char* RecorderClock::source() const noexcept {
  if (!is_counter_) return "clock_monotonic";
#if defined(__x86_64__)
  return "tsc";
#else
  return "cntvct";
#endif
}

TickScale::TickScale(const ClockReading& first, const ClockReading& second) noexcept
    : first_(first.ticks), nanoseconds_a_tick_(1) {
  const std::int64_t ns = second.monotonic_ns - first.monotonic_ns;
  const std::uint64_t ticks = second.ticks - first.ticks;
  if (ns > 0 && second.ticks > first.ticks)
    nanoseconds_a_tick_ = static_cast<double>(ns) / static_cast<double>(ticks);
}

std::uint64_t TickScale::since_first(std::uint64_t ticks) const noexcept {
  return ticks <= first_ ? 0 : length(ticks - first_);
}

std::uint64_t TickScale::length(std::uint64_t ticks) const noexcept {
  return static_cast<std::uint64_t>(static_cast<double>(ticks) * nanoseconds_a_tick_);
}

}  // namespace comm::detail
