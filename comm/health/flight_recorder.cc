#include "comm/health/flight_recorder.h"

#include <bit>
#include <cstdlib>

#include "comm/health/recorder_dump.h"
#include "comm/health/recorder_ring.h"

namespace comm {
namespace {

constexpr std::size_t kDefaultEntries = 1024;

Status nothing_recorded() {
  return make_error(StatusCode::unsupported, 0,
                    "flight recorder: nothing is recorded here (a backend that moves no data, a "
                    "rank that split left out, or a handle that was moved from)");
}

}  // namespace

Status RecorderOptions::complete_from_env() {
  if (directory.empty()) {
    const char* value = std::getenv("COMM_RECORDER_DIR");
    if (value != nullptr) directory = value;
  }
  std::size_t wanted = entries;
  const char* value = std::getenv("COMM_RECORDER_ENTRIES");
  const bool is_from_env = wanted == 0 && value != nullptr;
  if (is_from_env) {
    char* end = nullptr;
    wanted = *value >= '0' && *value <= '9' ? std::strtoull(value, &end, 10) : 0;
    if (end != nullptr && *end != '\0') wanted = 0;
  } else if (wanted == 0) {
    wanted = kDefaultEntries;
  }
  if (wanted < 64 || wanted > 65536 || !std::has_single_bit(wanted)) {
    entries = kDefaultEntries;
    if (is_from_env)
      return make_error(StatusCode::invalid_argument, 0,
                        "COMM_RECORDER_ENTRIES=%s: not a power of two from 64 to 65536", value);
    return make_error(StatusCode::invalid_argument, 0,
                      "RecorderOptions::entries is %zu: not a power of two from 64 to 65536",
                      wanted);
  }
  entries = wanted;
  return {};
}

std::uint64_t FlightRecorder::submissions() const {
  return ring_ == nullptr ? 0 : ring_->submissions();
}

std::string FlightRecorder::to_json(DumpReason reason) const {
  return ring_ == nullptr ? std::string() : detail::recorder_json(*ring_, reason);
}

Status FlightRecorder::dump_to(const std::string& path, DumpReason reason) const {
  return ring_ == nullptr ? nothing_recorded() : detail::write_dump(*ring_, path, reason);
}

Status FlightRecorder::dump(DumpReason reason) const {
  return ring_ == nullptr ? nothing_recorded() : detail::deliver_dump(*ring_, reason);
}

bool FlightRecorder::has_destination() const {
  return ring_ != nullptr && detail::has_destination(*ring_);
}

}  // namespace comm
