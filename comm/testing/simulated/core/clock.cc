#include <algorithm>

#include "comm/testing/simulated/core/operation.h"

namespace comm::simulated::detail {
namespace {

template <class Entries>
auto place_of(Entries& entries, std::uint64_t stream) {
  return std::lower_bound(entries.begin(), entries.end(), stream,
                          [](const auto& entry, std::uint64_t id) { return entry.first < id; });
}

}  // namespace

std::uint64_t Clock::at(std::uint64_t stream) const {
  const auto place = place_of(entries_, stream);
  return place != entries_.end() && place->first == stream ? place->second : 0;
}

void Clock::advance(std::uint64_t stream, std::uint64_t index) {
  const auto place = place_of(entries_, stream);
  if (place != entries_.end() && place->first == stream) {
    place->second = std::max(place->second, index);
  } else {
    entries_.insert(place, {stream, index});
  }
}

void Clock::merge(const Clock& other) {
  for (const auto& [stream, index] : other.entries_) advance(stream, index);
}

void Clock::forget(std::uint64_t stream) {
  const auto place = place_of(entries_, stream);
  if (place != entries_.end() && place->first == stream) entries_.erase(place);
}

}  // namespace comm::simulated::detail
