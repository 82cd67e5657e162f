#pragma once

/// What waiting is made of: the pause of a spin, the futex a rank sleeps on, monotonic time, and
/// how long each stage lasts. `Team` puts them together.
///
/// A rank that goes to sleep first says so, then makes every other rank's processor pass a memory
/// barrier (membarrier), and looks once more. So a rank that posts needs no barrier of its own to
/// see that somebody sleeps: waking costs the fast path one load from its own cache.

#include <atomic>
#include <cstdint>

#include "comm/wait_policy.h"

namespace comm::detail::host {

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Monotonic, in nanoseconds.
std::int64_t now_ns();

/// `now + timeout`, or the end of time.
std::int64_t deadline_after(std::int64_t timeout_ns);

/// Sleeps while `word` is `value`, for no longer than `nanoseconds`.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value, std::int64_t nanoseconds);
void futex_wake(std::atomic<std::uint32_t>& word);

/// Whether `barrier_everywhere` works; where it does not, sleeps are kept short, since a wake-up may
/// then be missed.
bool prepare_barrier_everywhere();
void barrier_everywhere();

/// The stages of a wait: the caller's, in nanoseconds, and what no caller has to know.
struct Waiting {
  int spins = 0;
  int spins_on_shared_core = 0;
  std::int64_t yield_ns = 0;
  std::int64_t first_sleep_ns = 0;
  std::int64_t longest_sleep_ns = 0;
  std::int64_t slow_ns = 10'000'000'000;  ///< A wait this long is said in the log.
  unsigned yields_until_move = 64;  ///< Each so many waits for the own core are slept through.

  /// As `policy` says, for one rank, or for `ranks` ranks on the cores that any of them may use.
  explicit Waiting(const HostWaitPolicy& policy = {}, int ranks = 1, int cores = 1);
};

}  // namespace comm::detail::host
