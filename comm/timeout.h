#pragma once

/// `Timeout` is how long a call may wait: any `std::chrono` duration, `Timeout::never()` for no
/// bound, or nothing, which means the bound the communicator was configured with. It is not
/// `std::chrono` itself only because that header takes longer to compile than all of comm.

#include <cstdint>
#include <limits>

#include "comm/language.h"

namespace comm {

class Timeout {
 public:
  /// The communicator's own bound.
  constexpr Timeout() = default;

  template <class Duration>
    requires requires(Duration d) {
      typename Duration::period;
      {d.count()};
    }
  constexpr Timeout(Duration d)  // NOLINT: a duration is a timeout
      : nanoseconds_(to_nanoseconds(static_cast<double>(d.count()) *
                                    static_cast<double>(Duration::period::num) * 1e9 /
                                    static_cast<double>(Duration::period::den))) {}

  static constexpr Timeout nanoseconds(std::int64_t n) {
    Timeout t;
    t.nanoseconds_ = n < 0 ? 0 : n;
    return t;
  }
  static constexpr Timeout milliseconds(std::int64_t n) {
    if (n <= 0) return nanoseconds(0);
    return nanoseconds(n > kForever / 1'000'000 ? kForever : n * 1'000'000);
  }
  static constexpr Timeout never() { return nanoseconds(kForever); }

  constexpr bool is_given() const { return nanoseconds_ >= 0; }
  constexpr bool is_never() const { return nanoseconds_ == kForever; }

  /// This bound in nanoseconds, or `fallback` where none was given.
  constexpr std::int64_t nanoseconds_or(std::int64_t fallback) const {
    return is_given() ? nanoseconds_ : fallback;
  }

 private:
  static constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();

  static constexpr std::int64_t to_nanoseconds(double n) {
    if (!(n > 0)) return 0;  // Nor where it is not a number.
    return n >= 9.2e18 ? kForever : static_cast<std::int64_t>(n);
  }

  std::int64_t nanoseconds_ = -1;
};

}  // namespace comm
