#pragma once

/// `Logger` is how a backend and the rendezvous write their lines: a sink of the configuration, the
/// levels, the part that speaks and the rank it is about. What strangers or peers can cause is said
/// by `say_limited`: after a burst it is counted, and the count is said later.
///
///     detail::Logger log(config.log, levels, LogPart::nccl, rank, world_size);
///     log.say(LogLevel::info, "made on GPU %d", device);
///
/// Thread safety: any member from any thread, if the sink may be called so; it takes one whole line.

#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string_view>
#include <utility>

#include "comm/log.h"

namespace comm::detail {

class Logger {
 public:
  /// Gets a line without its newline. Empty: stderr.
  using Sink = std::function<void(std::string_view)>;

  Logger(Sink sink, const LogLevels& levels, LogPart part, int rank, int world_size)
      : sink_(std::move(sink)),
        levels_(levels),
        part_(part),
        rank_(rank),
        world_size_(world_size) {}
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  bool is_on(LogLevel level) const { return levels_.is_on(part_, level); }
  /// From now on lines name it.
  void set_epoch(std::uint64_t epoch) { epoch_.store(epoch, std::memory_order_relaxed); }
  const LogLevels& levels() const { return levels_; }

  [[gnu::cold, gnu::format(printf, 3, 4)]] void say(LogLevel level, const char* format, ...);

  /// At most `kBurst` lines at once and `kPerSecond` after that.
  [[gnu::cold, gnu::format(printf, 3, 4)]] void say_limited(LogLevel level, const char* format,
                                                            ...);

  /// For others that log to the same place; valid as long as this object.
  LogSettings settings() const;

 private:
  static constexpr double kBurst = 20;
  static constexpr double kPerSecond = 2;

  bool take_token(std::uint64_t& suppressed);
  LogSource source() const { return {rank_, world_size_, epoch_.load(std::memory_order_relaxed)}; }
  void emit(LogLevel level, const char* format, std::va_list arguments, std::uint64_t suppressed);

  const Sink sink_;
  const LogLevels levels_;
  const LogPart part_;
  const int rank_;
  const int world_size_;
  std::atomic<std::uint64_t> epoch_{LogSource::kNoEpoch};

  std::mutex mutex_;  ///< For what follows.
  double tokens_ = kBurst;
  std::uint64_t suppressed_ = 0;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// The levels of a configuration that may leave them to the environment.
LogLevels levels_or_environment(const LogLevels* given, const Logger::Sink& complaints);

}  // namespace comm::detail
