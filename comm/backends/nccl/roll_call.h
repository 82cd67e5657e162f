#pragma once

/// `RollCall` finds out who is meant when a rank says only that its time is up. NCCL does not know
/// which rank a collective waits for; the channel beside it can ask. The watchdogs of all ranks
/// answer with what their rank has submitted: who does not answer is named, and so is who is behind
/// or calls something else. Once an epoch, after its first failure.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>

#include "comm/operations.h"

namespace comm::detail::nccl {

class RollCall {
 public:
  /// What a rank says of itself.
  struct Answer {
    std::uint64_t submitted;  ///< Operations of this epoch in which all ranks take part.
    std::uint32_t last;       ///< The last `Operation` that was submitted.
    std::uint32_t messages;   ///< Submitted besides: between two ranks.
    std::uint32_t stood_ms;   ///< How long its process stood still, if lately.
    std::uint32_t reserved;
  };

  /// For a new epoch, before its watchdog starts.
  void begin_epoch();
  /// True for the first that asks; it calls `finish`.
  bool start();
  void finish(std::string names);
  /// There is nobody any more who would call the roll.
  void give_up();
  /// What has come of it, waiting a moment if it is still to come; empty where nobody is named.
  std::string names(bool wait);

 private:
  enum class Stage { none, expected, running, done };

  std::mutex mutex_;
  std::condition_variable changed_;
  Stage stage_ = Stage::none;
  std::string names_;
};

/// A wait that goes on for long, from the thread that waits to the watchdog, which asks who is missing
/// and says so.
struct SlowWait {
  std::atomic<std::int64_t> waited_ms{0};  ///< 0: nobody does.
  std::atomic<Operation> operation{};
  std::uint64_t answered = 0;                        ///< The last call that the watchdog answered,
  std::uint64_t asked = 0;                           ///< and the last that it made,
  std::chrono::steady_clock::time_point asked_at{};  ///< at this time.
};

/// Of a watchdog, which wakes up on time unless its whole process cannot: for how long it stood still,
/// stopped or without a core, and when that ended. Any thread.
class Standstill {
 public:
  /// A sleep of `asked` that began at `since` is over.
  void woke(std::chrono::steady_clock::time_point since, std::chrono::milliseconds asked);
  /// In milliseconds, if it ended no longer than `lately` ago; or 0.
  std::uint32_t within(std::chrono::milliseconds lately) const;

 private:
  std::atomic<std::uint32_t> length_ms_{0};
  std::atomic<std::int64_t> end_ms_{0};
};

/// In words: who is behind, or calls what another does not, or else stood still; by rank. Empty where
/// nobody is, does and did.
std::string compare(const RollCall::Answer* answers, int count);

}  // namespace comm::detail::nccl
