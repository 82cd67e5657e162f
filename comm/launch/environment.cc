#include "comm/launch/environment.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>

namespace comm::detail {
namespace {

std::string printable(const std::string& value) {
  constexpr std::size_t kMost = 100;
  std::string out;
  for (const char c : value.substr(0, kMost)) {
    const auto u = static_cast<unsigned char>(c);
    if (u >= 0x20 && u < 0x7f && c != '"' && c != '\\') {
      out += c;
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", u);
      out += escaped;
    }
  }
  return value.size() > kMost ? out + "..." : out;
}

}  // namespace

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

Status bad_variable(const char* name, const std::string& value, const std::string& expected) {
  return make_error(StatusCode::invalid_argument, 0, "launch: %s=\"%s\" is not usable: %s", name,
                    printable(value).c_str(), expected.c_str());
}

std::optional<std::int64_t> parse_number(const std::string& text) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return std::nullopt;
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

Result<std::optional<std::int64_t>> number_variable(const char* name, std::int64_t least,
                                                    std::int64_t most) {
  const std::optional<std::string> text = variable(name);
  if (!text) return std::optional<std::int64_t>();
  const std::optional<std::int64_t> value = parse_number(*text);
  if (!value || *value < least || *value > most) {
    return bad_variable(
        name, *text,
        "expected a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return value;
}

std::optional<std::chrono::milliseconds> parse_duration(const std::string& text) {
  constexpr std::int64_t kMost = std::int64_t{365} * 24 * 3600 * 1000;
  const std::size_t digits = text.find_first_not_of("0123456789");
  const std::string unit = digits == std::string::npos ? "" : text.substr(digits);
  std::int64_t factor = 0;
  if (unit.empty() || unit == "s") factor = 1000;
  if (unit == "ms") factor = 1;
  if (unit == "m") factor = 60 * 1000;
  if (unit == "h") factor = 3600 * 1000;
  const std::optional<std::int64_t> value = parse_number(text.substr(0, digits));
  if (factor == 0 || !value || *value < 1 || *value > kMost / factor) return std::nullopt;
  return std::chrono::milliseconds(*value * factor);
}

Result<std::optional<std::chrono::milliseconds>> duration_variable(const char* name) {
  const std::optional<std::string> text = variable(name);
  if (!text) return std::optional<std::chrono::milliseconds>();
  const std::optional<std::chrono::milliseconds> value = parse_duration(*text);
  if (!value) {
    return bad_variable(name, *text,
                        "expected a time above zero and up to a year, such as 90, 90s, 1500ms, 10m "
                        "or 2h");
  }
  return value;
}

Result<std::optional<std::string>> word_variable(const char* name, std::size_t longest) {
  std::optional<std::string> text = variable(name);
  if (!text) return text;
  bool fits = !text->empty() && text->size() <= longest;
  for (const char c : *text) fits = fits && c > 0x20 && c != 0x7f;
  if (!fits) {
    return bad_variable(name, *text,
                        "expected 1 to " + std::to_string(longest) +
                            " characters without spaces and control characters");
  }
  return text;
}

}  // namespace comm::detail
