#pragma once

/// What comm says to the person who runs the job, how much of it, and where it goes. A `LogSink` is
/// a function and what it is called with; the default one writes to stderr, each line by one system
/// call, so that lines of several ranks on one terminal do not mix. `LogLevels` says how much each
/// part of comm says. Both are held by what was made with them: nothing here is global.
///
///     auto to_file = [](void* file, const char* line) { std::fputs(line, static_cast<FILE*>(file)); };
///     comm::LogSink sink(to_file, file);
///     comm::Result<comm::LogLevels> levels = comm::LogLevels::parse("info,rendezvous=debug");
///
/// A line that is not written costs one branch. docs/logging.md lists what is said at which level.
///
/// Thread safety: a sink may be called from several threads, and so must its function.

#include <concepts>
#include <cstdint>

#include "comm/result.h"

namespace comm {

enum class LogLevel : std::uint8_t { off, error, warn, info, debug, trace };

/// Who speaks.
enum class LogPart : std::uint8_t { rendezvous, host, nccl, faulty, operations };
inline constexpr int kLogParts = 5;

const char* to_string(LogLevel level) noexcept;
const char* to_string(LogPart part) noexcept;

class LogSink {
 public:
  /// Gets one line with its newline; the text is gone after the call. Must not throw.
  using Function = void (*)(void* context, const char* line);

  /// Writes to stderr.
  constexpr LogSink() = default;
  constexpr LogSink(Function function, void* context) : function_(function), context_(context) {}

  void operator()(const char* line) const noexcept;

 private:
  Function function_ = nullptr;
  void* context_ = nullptr;
};

/// A level for each part; `warn` for all where nothing was said.
class LogLevels {
 public:
  constexpr LogLevels() : LogLevels(LogLevel::warn) {}
  constexpr explicit LogLevels(LogLevel all) {
    for (LogLevel& level : levels_) level = all;
  }

  /// A level for all parts, levels for some, or both, by commas: "info,rendezvous=debug". The error
  /// names the word that was not understood.
  static Result<LogLevels> parse(const char* text);

  /// COMM_LOG as above. COMM_DIAGNOSTICS=1 is operations=trace. A malformed COMM_LOG counts as none
  /// and is complained of to `complaints`, in one line.
  static LogLevels from_env(LogSink complaints = {}) noexcept;

  constexpr LogLevel of(LogPart part) const { return levels_[static_cast<int>(part)]; }
  constexpr void set(LogPart part, LogLevel level) { levels_[static_cast<int>(part)] = level; }
  constexpr bool is_on(LogPart part, LogLevel level) const {
    return level != LogLevel::off && level <= of(part);
  }

  bool operator==(const LogLevels&) const = default;

 private:
  LogLevel levels_[kLogParts] = {};
};

/// Where lines go, and how many.
struct LogSettings {
  LogSink sink;
  LogLevels levels;
};

/// Optional in a backend: what its decorators say goes where its own lines go. The sink lives as
/// long as the backend.
template <class B>
concept HasLogSettings = requires(const B& b) {
  { b.log_settings() } -> std::same_as<LogSettings>;
};

/// Those of the backend, or what the environment says.
template <class B>
LogSettings log_settings_of(const B& backend) {
  if constexpr (HasLogSettings<B>)
    return backend.log_settings();
  else
    return {LogSink(), LogLevels::from_env()};
}

/// Who a line is about. Unknown: -1 for the rank, 0 for the world.
struct LogSource {
  int rank = -1;
  int world_size = 0;
  std::uint64_t epoch = kNoEpoch;
  static constexpr std::uint64_t kNoEpoch = ~std::uint64_t{0};
};

/// "comm: rank=1 world=4 epoch=0 nccl warn: " and the rest as by printf, if the part's level has it.
[[gnu::cold, gnu::format(printf, 5, 6)]] void write_log(const LogSettings& settings,
                                                        const LogSource& source, LogPart part,
                                                        LogLevel level, const char* format,
                                                        ...) noexcept;

}  // namespace comm
