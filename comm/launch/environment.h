#pragma once

/// Environment variables read strictly: a value is what it should be from the first character to the
/// last, or it is refused with its name, its value and what was expected. Values are printed with
/// everything unprintable escaped; secrets do not pass through here.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "comm/result.h"

namespace comm::detail {

/// A variable that is set, also if to nothing.
std::optional<std::string> variable(const char* name);

/// The error for a value that cannot be meant.
Status bad_variable(const char* name, const std::string& value, const std::string& expected);

/// A whole number in digits only; nothing where the variable is not set.
Result<std::optional<std::int64_t>> number_variable(const char* name, std::int64_t least,
                                                    std::int64_t most);

/// "90", "90s", "1500ms", "10m" or "2h", above zero and up to a year.
Result<std::optional<std::chrono::milliseconds>> duration_variable(const char* name);

/// The same from a text.
std::optional<std::chrono::milliseconds> parse_duration(const std::string& text);

/// Text without spaces and control characters, not empty.
Result<std::optional<std::string>> word_variable(const char* name, std::size_t longest);

/// Parses digits only: no sign, no space, no overflow.
std::optional<std::int64_t> parse_number(const std::string& text);

}  // namespace comm::detail
