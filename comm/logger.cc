#include "comm/logger.h"

#include <algorithm>
#include <cstring>

#include "comm/log_line.h"

namespace comm::detail {
namespace {

LogSink as_log_sink(const Logger::Sink& sink) {
  if (!sink) return {};
  const auto hand_on = [](void* context, const char* line) {
    const std::size_t length = std::strlen(line);
    (*static_cast<const Logger::Sink*>(context))(std::string_view(line, length - 1));
  };
  return {hand_on, const_cast<Logger::Sink*>(&sink)};
}

}  // namespace

LogSettings Logger::settings() const {
  return {as_log_sink(sink_), levels_};
}

bool Logger::take_token(std::uint64_t& suppressed) {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  tokens_ =
      std::min(kBurst, tokens_ + kPerSecond * std::chrono::duration<double>(now - last_).count());
  last_ = now;
  if (tokens_ < 1) {
    ++suppressed_;
    return false;
  }
  tokens_ -= 1;
  suppressed = std::exchange(suppressed_, 0);
  return true;
}

void Logger::emit(LogLevel level, const char* format, std::va_list arguments,
                  std::uint64_t suppressed) {
  LogLine line(source());
  line.add(" %s %s: ", to_string(part_), to_string(level));
  line.add_list(format, arguments);
  if (suppressed > 0)
    line.add(" (and %llu more like it)", static_cast<unsigned long long>(suppressed));
  as_log_sink(sink_)(line.finish());
}

void Logger::say(LogLevel level, const char* format, ...) {
  if (!is_on(level)) return;
  std::va_list arguments;
  va_start(arguments, format);
  emit(level, format, arguments, 0);
  va_end(arguments);
}

void Logger::say_limited(LogLevel level, const char* format, ...) {
  std::uint64_t suppressed = 0;
  if (!is_on(level) || !take_token(suppressed)) return;
  std::va_list arguments;
  va_start(arguments, format);
  emit(level, format, arguments, suppressed);
  va_end(arguments);
}

LogLevels levels_or_environment(const LogLevels* given, const Logger::Sink& complaints) {
  return given != nullptr ? *given : LogLevels::from_env(as_log_sink(complaints));
}

}  // namespace comm::detail
