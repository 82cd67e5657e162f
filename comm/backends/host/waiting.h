#pragma once

/// What waiting is made of: the pause of a spin, the futex a rank sleeps on, monotonic time, and
/// how long each stage lasts. `Team` puts them together.
///
/// A rank that goes to sleep first says so, then makes every other rank's processor pass a memory
/// barrier (membarrier), and looks once more. So a rank that posts needs no barrier of its own to
/// see that somebody sleeps: waking costs the fast path one load from its own cache.

#include <atomic>
#include <cstdint>

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

/// The stages of a wait.
struct WaitPolicy {
  int spins = 2000;                 ///< Looks with a pause between them.
  int spins_on_shared_core = 10;    ///< The same where whoever is waited for needs this core.
  unsigned yields_until_move = 64;  ///< Each so many waits for the own core are slept through.
  int yields = 100;                 ///< Looks after giving the core to others.
  std::int64_t slow_ns = 10'000'000'000;  ///< A wait this long is said in the log.
  std::int64_t first_sleep_ns = 2'000'000;
  std::int64_t longest_sleep_ns = 100'000'000;  ///< Also how often peers' health is looked at.

  /// For `ranks` ranks on the cores that any of them may use.
  static WaitPolicy for_ranks(int ranks, int cores);
};

}  // namespace comm::detail::host
