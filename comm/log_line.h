#pragma once

/// `LogLine` puts a line of bounded length together, without allocating: what does not fit is cut,
/// and there is exactly one newline, at the end. For what comm says; engines have no use for it.

#include <cstdarg>
#include <cstddef>

#include "comm/log.h"

namespace comm::detail {

class LogLine {
 public:
  /// "comm: rank=1 world=4 epoch=0"
  explicit LogLine(const LogSource& source);

  [[gnu::format(printf, 2, 3)]] void add(const char* format, ...);
  void add_list(const char* format, std::va_list arguments);

  /// A message of several lines would be several log lines.
  const char* finish();

 private:
  static constexpr std::size_t kMost = 1024;
  char text_[kMost + 2] = {};
  std::size_t size_ = 0;
};

}  // namespace comm::detail
