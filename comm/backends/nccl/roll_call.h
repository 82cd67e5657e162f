#pragma once

/// `RollCall` finds out who is meant when a rank says only that its time is up. NCCL does not know
/// which rank a collective waits for; the channel beside it can ask. The watchdogs of all ranks
/// answer with what their rank has submitted: who does not answer is named, and so is who is behind
/// or calls something else. Once an epoch, after its first failure.

#include <atomic>
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
  std::uint64_t answered = 0;  ///< The last call that the watchdog answered.
};

/// In words: who is behind, or calls what another does not; by rank. Empty where nobody is and does.
std::string compare(const RollCall::Answer* answers, int count);

}  // namespace comm::detail::nccl
