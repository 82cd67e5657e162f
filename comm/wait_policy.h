#pragma once

/// How a thread waits. It looks first; then it spins, yields and sleeps, and looks in between. Each
/// sleep is longer than the one before, so a long wait costs next to no processor time.
/// docs/reliability.md has figures.
///
/// `WaitPolicy` is how a thread of the host waits for a GPU. Its sleeps are a part of what has been
/// waited already: an eighth at first, 0.4 % of a long wait, and by about that part a wait ends late.
///
///     config.waiting.spin = std::chrono::milliseconds(2);  // A core for the lowest latency.
///
/// `HostWaitPolicy` is how a rank of `Host` waits for other ranks. A look there is a load, and
/// reading a clock would cost more than ten of them, so its spins are counted in looks. A sleep
/// ends when the rank that is waited for comes; its length only says how often it is looked whether
/// that rank still lives.
///
///     config.waiting.spins = 0;  // Other work needs the cores: sleep as soon as there is a wait.
///     config.waiting.yield = std::chrono::microseconds(0);

#include <chrono>

#include "comm/language.h"

namespace comm {

struct WaitPolicy {
  std::chrono::microseconds spin{20};    ///< Until so long after its begin a wait spins,
  std::chrono::microseconds yield{200};  ///< and until so long it yields.
  std::chrono::microseconds longest_sleep{20'000};
};

struct HostWaitPolicy {
  int spins = 2000;               ///< Looks with a pause between them: some 30 to 100 us.
  int spins_on_shared_core = 10;  ///< The same where whoever is waited for needs this core.

  /// For so long after the spins the core is given to others, again and again. Waking up costs the
  /// two ranks some 50 us; this is as long as a peer copies a few MiB.
  std::chrono::microseconds yield{1'000};

  std::chrono::microseconds first_sleep{2'000};      ///< Each is twice as long as the one before,
  std::chrono::microseconds longest_sleep{100'000};  ///< up to this; at most `kLongestSleep`.

  static constexpr std::chrono::microseconds kLongestSleep{1'000'000};
};

}  // namespace comm
