#pragma once

/// Text for messages and log lines. Thread-safe.

#include <string>
#include <string_view>

namespace comm::detail {

/// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string format(const char* format, ...);

/// Text from a stranger, cut to a line's length, with everything unprintable replaced.
std::string printable(std::string_view text);

}  // namespace comm::detail
