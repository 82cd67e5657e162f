#include "comm/log.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace comm {

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

bool diagnostics_are_on() noexcept {
  const char* value = std::getenv("COMM_DIAGNOSTICS");
  return value != nullptr && std::strcmp(value, "1") == 0;
}

}  // namespace comm
