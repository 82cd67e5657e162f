#pragma once

/// `Timed<B>` is a decorator that somebody else wrote: how often each operation was called on any
/// backend `B`, and how long the host was in it. Over a backend that moves no data the hook is never
/// compiled, and every count is 0.
///
///     comm::Communicator<example::Timed<comm::Host>> c = …;
///     c.backend().time(comm::Operation::all_reduce).calls;
///
/// Threads: as the backend's.

#include <array>
#include <chrono>
#include <cstdint>

#include "comm/decorator.h"

namespace example {

struct Time {
  std::uint64_t calls = 0;
  std::chrono::nanoseconds spent{0};
};

template <comm::Backend B>
class Timed : public comm::Decorator<Timed<B>, B> {
 public:
  using comm::Decorator<Timed, B>::Decorator;

  template <class Op, class Next>
  auto around(const Op&, Next next) {
    const auto start = std::chrono::steady_clock::now();
    auto outcome = next();
    Time& time = times_[static_cast<std::size_t>(Op::operation)];
    ++time.calls;
    time.spent += std::chrono::steady_clock::now() - start;
    return outcome;
  }

  const Time& time(comm::Operation operation) const {
    return times_[static_cast<std::size_t>(operation)];
  }

 private:
  std::array<Time, static_cast<std::size_t>(comm::Operation::abort) + 1> times_{};
};

}  // namespace example
