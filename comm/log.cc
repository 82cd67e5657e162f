#include "comm/log.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "comm/log_line.h"

namespace comm {
namespace {

constexpr const char* kLevels[] = {"off", "error", "warn", "info", "debug", "trace"};
constexpr const char* kParts[] = {"rendezvous", "host", "nccl", "faulty", "operations"};
static_assert(sizeof kParts / sizeof *kParts == kLogParts);

/// The place of `word` among `words`, or -1.
template <std::size_t kCount>
int index_of(std::string_view word, const char* const (&words)[kCount]) {
  for (std::size_t i = 0; i < kCount; ++i)
    if (word == words[i]) return static_cast<int>(i);
  return -1;
}

Status not_understood(std::string_view word) {
  return make_error(StatusCode::invalid_argument, 0,
                    "cannot read '%.*s'; wanted a level (off, error, warn, info, debug, trace) or "
                    "part=level (parts: rendezvous, host, nccl, faulty, operations), "
                    "separated by commas",
                    static_cast<int>(word.size() < 80 ? word.size() : 80), word.data());
}

}  // namespace

const char* to_string(LogLevel level) noexcept {
  return kLevels[static_cast<int>(level)];
}

const char* to_string(LogPart part) noexcept {
  return kParts[static_cast<int>(part)];
}

void LogSink::operator()(const char* line) const noexcept {
  if (function_ != nullptr) return function_(context_, line);
  const int before = errno;
  std::size_t left = std::strlen(line);
  while (left > 0) {
    const ssize_t written = ::write(STDERR_FILENO, line, left);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;  // Nobody listens; a log is no reason to fail.
    line += written;
    left -= static_cast<std::size_t>(written);
  }
  errno = before;
}

Result<LogLevels> LogLevels::parse(const char* text) {
  // A level for all goes first, wherever it stands, so that "nccl=info,off" reads as it looks.
  LogLevels levels;
  for (const bool for_all : {true, false}) {
    std::string_view rest = text;
    while (!rest.empty()) {
      const std::size_t comma = rest.find(',');
      const std::string_view word = rest.substr(0, comma);
      rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
      const std::size_t equals = word.find('=');
      const bool has_part = equals != std::string_view::npos;
      const int part = has_part ? index_of(word.substr(0, equals), kParts) : -1;
      const int level = index_of(has_part ? word.substr(equals + 1) : word, kLevels);
      if (level < 0 || (has_part && part < 0)) return not_understood(word);
      if (has_part == for_all) continue;
      if (has_part)
        levels.set(static_cast<LogPart>(part), static_cast<LogLevel>(level));
      else
        levels = LogLevels(static_cast<LogLevel>(level));
    }
  }
  return levels;
}

LogLevels LogLevels::from_env(LogSink complaints) noexcept {
  LogLevels levels;
  if (const char* text = std::getenv("COMM_LOG"); text != nullptr) {
    Result<LogLevels> parsed = parse(text);
    if (parsed.ok()) {
      levels = *parsed;
    } else {
      detail::LogLine line(LogSource{});
      line.add(" COMM_LOG: %s; going on as without it", parsed.message());
      complaints(line.finish());
    }
  }
  const char* diagnostics = std::getenv("COMM_DIAGNOSTICS");
  if (diagnostics != nullptr && std::strcmp(diagnostics, "1") == 0)
    levels.set(LogPart::operations, LogLevel::trace);
  return levels;
}

void write_log(const LogSettings& settings, const LogSource& source, LogPart part, LogLevel level,
               const char* format, ...) noexcept {
  if (!settings.levels.is_on(part, level)) return;
  detail::LogLine line(source);
  line.add(" %s %s: ", to_string(part), to_string(level));
  std::va_list arguments;
  va_start(arguments, format);
  line.add_list(format, arguments);
  va_end(arguments);
  settings.sink(line.finish());
}

namespace detail {

LogLine::LogLine(const LogSource& source) {
  add("comm:");
  if (source.rank >= 0) add(" rank=%d", source.rank);
  if (source.world_size > 0) add(" world=%d", source.world_size);
  if (source.epoch != LogSource::kNoEpoch)
    add(" epoch=%llu", static_cast<unsigned long long>(source.epoch));
}

void LogLine::add(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  add_list(format, arguments);
  va_end(arguments);
}

void LogLine::add_list(const char* format, std::va_list arguments) {
  const int wanted = std::vsnprintf(text_ + size_, kMost - size_, format, arguments);
  if (wanted > 0) size_ += static_cast<std::size_t>(wanted);
  if (size_ >= kMost) size_ = kMost - 1;
}

const char* LogLine::finish() {
  for (std::size_t i = 0; i < size_; ++i)
    if (text_[i] == '\n' || text_[i] == '\r') text_[i] = ' ';
  std::memcpy(text_ + size_, "\n", 2);
  return text_;
}

}  // namespace detail
}  // namespace comm
