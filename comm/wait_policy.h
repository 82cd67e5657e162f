#pragma once

/// `WaitPolicy` is how a thread of the host waits for a GPU. It looks first; then it spins, yields and
/// sleeps, and looks in between. Each sleep is a part of what has been waited already: an eighth at
/// first, a thousandth of a long wait. So the wait ends late by about that part, and a long one costs
/// next to no processor time. docs/reliability.md has figures.
///
///     config.waiting.spin = std::chrono::milliseconds(2);  // A core for the lowest latency.

#include <chrono>

#include "comm/language.h"

namespace comm {

struct WaitPolicy {
  std::chrono::microseconds spin{20};    ///< Until so long after its begin a wait spins,
  std::chrono::microseconds yield{200};  ///< and until so long it yields.
  std::chrono::microseconds longest_sleep{10'000};
};

}  // namespace comm
