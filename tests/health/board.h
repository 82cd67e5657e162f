#pragma once

/// `Board` is what the processes of a soak share: what has been done to whom, how far everybody is,
/// and what went wrong. Anonymous shared memory; every process of the soak has it at the same place.

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <new>

namespace comm::test {

inline constexpr int kMostRanks = 8;

inline std::int64_t now_ms() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::int64_t>(t.tv_sec) * 1000 + t.tv_nsec / 1'000'000;
}

struct Board {
  struct Rank {
    std::atomic<std::int64_t> beat{0};  ///< When it last ended a call.
    std::atomic<const char*> doing{""};
    std::atomic<std::uint64_t> epoch{0};
    std::atomic<std::uint64_t> steps{0};
    std::atomic<std::int64_t> harmed{0};  ///< When something was last done to it.
    std::atomic<std::uint32_t> stops{0};
    std::atomic<bool> is_stopped{false};
    std::atomic<bool> is_cut{false};   ///< Off from rank 0, or rank 0 from all others.
    std::atomic<std::int64_t> cut{0};  ///< When its cable was last pulled or mended.
    std::atomic<bool> runs{false};     ///< It is in an epoch, and knows of no failure.
  };
  Rank ranks[kMostRanks];
  std::atomic<bool> is_over{false};
  /// When the machine last stood still, the soak with it: what took long then says nothing.
  std::atomic<std::int64_t> stood_still{-1};
  std::atomic<int> complaints{0};
  std::atomic<std::uint64_t> reconnects{0};
  std::atomic<std::uint64_t> failures_named{0};

  static Board* make() {
    void* memory =
        mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : ::new (memory) Board;
  }

  /// The soak's own sleep; a rank that was not asleep may ask a moment later.
  void sleep(std::int64_t ms) {
    const std::int64_t began = now_ms();
    usleep(static_cast<useconds_t>(ms * 1000));
    if (now_ms() - began > ms + 1000) stood_still.store(now_ms());
  }
  bool stood_still_since(std::int64_t when) const {
    usleep(100'000);
    return stood_still.load() >= when;
  }

  /// Something is wrong: said at once, and the soak ends with an error.
  [[gnu::format(printf, 2, 3)]] void complain(const char* format, ...) {
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (complaints.fetch_add(1) < 20) std::fprintf(stderr, "WRONG: %s\n", text);
  }

  void beat(int rank, const char* doing) {
    ranks[rank].doing.store(doing);
    ranks[rank].beat.store(now_ms());
  }
};

}  // namespace comm::test
