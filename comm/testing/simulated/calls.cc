#include "comm/testing/simulated/calls.h"

#include <map>
#include <mutex>
#include <string>

namespace comm::simulated {
namespace {

struct Counts {
  std::mutex mutex;
  std::map<std::string, int, std::less<>> by_name;
};

Counts& counts() {
  static Counts& counts = *new Counts;
  return counts;
}

}  // namespace

int calls(std::string_view function) {
  const std::lock_guard lock(counts().mutex);
  const auto found = counts().by_name.find(function);
  return found == counts().by_name.end() ? 0 : found->second;
}

void clear_calls() {
  const std::lock_guard lock(counts().mutex);
  counts().by_name.clear();
}

namespace detail {

void count_call(const char* function) {
  const std::lock_guard lock(counts().mutex);
  const auto found = counts().by_name.find(std::string_view(function));
  if (found != counts().by_name.end()) {
    ++found->second;
  } else {
    counts().by_name.emplace(function, 1);
  }
}

}  // namespace detail
}  // namespace comm::simulated
