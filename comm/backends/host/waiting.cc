#include "comm/backends/host/waiting.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

namespace comm::detail::host {

std::int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

std::int64_t deadline_after(std::int64_t timeout_ns) {
  const std::int64_t now = now_ns();
  std::int64_t sum = 0;
  return __builtin_add_overflow(now, timeout_ns, &sum) ? std::numeric_limits<std::int64_t>::max()
                                                       : sum;
}

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value, std::int64_t nanoseconds) {
  timespec t;
  t.tv_sec = static_cast<time_t>(nanoseconds / 1'000'000'000);
  t.tv_nsec = static_cast<long>(nanoseconds % 1'000'000'000);
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &t, nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, std::numeric_limits<int>::max(), nullptr, nullptr, 0);
}

bool prepare_barrier_everywhere() {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

void barrier_everywhere() {
  syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

Waiting::Waiting(const HostWaitPolicy& policy, int ranks, int cores)
    // Whoever is waited for needs this core, where there are too few.
    : spins(ranks > cores ? policy.spins_on_shared_core : policy.spins),
      spins_on_shared_core(policy.spins_on_shared_core),
      // Whoever is never to sleep may give the greatest number, which nanoseconds cannot hold.
      yield_ns(std::chrono::nanoseconds(
                   std::min<std::chrono::microseconds>(policy.yield, std::chrono::hours(24)))
                   .count()),
      first_sleep_ns(std::chrono::nanoseconds(policy.first_sleep).count()),
      longest_sleep_ns(std::chrono::nanoseconds(policy.longest_sleep).count()) {}

}  // namespace comm::detail::host
