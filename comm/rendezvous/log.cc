#include "comm/rendezvous/log.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

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

}  // namespace comm::detail
