#pragma once

/// Lines for the person who runs the job: "comm: rank 0: ...", to the sink of the configuration or
/// to stderr, each in one write. What strangers can cause is limited: after a burst it is counted
/// and the count is said later. Thread-safe if the sink is.

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "comm/rendezvous/deadline.h"

namespace comm::detail {

using LogSink = std::function<void(std::string_view)>;

class Log {
 public:
  Log(LogSink sink, int rank) : sink_(std::move(sink)), rank_(rank) {}

  [[gnu::format(printf, 2, 3)]] void say(const char* format, ...);

  /// At most `kBurst` lines at once and `kPerSecond` after that.
  [[gnu::format(printf, 2, 3)]] void say_limited(const char* format, ...);

 private:
  static constexpr double kBurst = 20;
  static constexpr double kPerSecond = 2;

  void emit(std::string line);
  bool take_token(std::uint64_t& suppressed);

  LogSink sink_;
  int rank_;
  std::mutex mutex_;
  double tokens_ = kBurst;
  std::uint64_t suppressed_ = 0;
  Clock::time_point last_ = Clock::now();
};

/// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string format(const char* format, ...);

/// Text from a stranger, cut to a line's length, with everything unprintable replaced.
std::string printable(std::string_view text);

}  // namespace comm::detail
