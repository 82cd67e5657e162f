#include "comm/rendezvous/log.h"

#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <utility>

namespace comm::detail {
namespace {

std::string vformat(const char* format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  std::string out(static_cast<std::size_t>(std::max(length, 0)), '\0');
  std::vsnprintf(out.data(), out.size() + 1, format, again);
  va_end(again);
  return out;
}

}  // namespace

std::string format(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string out = vformat(format, arguments);
  va_end(arguments);
  return out;
}

std::string printable(std::string_view text) {
  std::string out(text.substr(0, 255));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) c = '?';
  }
  return out;
}

void Log::emit(std::string line) {
  line = "comm: rank " + std::to_string(rank_) + ": " + line;
  if (sink_) return sink_(line);
  line += '\n';
  // A log that cannot be written is no reason to fail.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

bool Log::take_token(std::uint64_t& suppressed) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
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

void Log::say(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  emit(vformat(format, arguments));
  va_end(arguments);
}

void Log::say_limited(const char* format, ...) {
  std::uint64_t suppressed = 0;
  if (!take_token(suppressed)) return;
  va_list arguments;
  va_start(arguments, format);
  std::string line = vformat(format, arguments);
  va_end(arguments);
  if (suppressed > 0) line += " (and " + std::to_string(suppressed) + " more like it)";
  emit(std::move(line));
}

}  // namespace comm::detail
