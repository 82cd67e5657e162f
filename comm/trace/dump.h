#pragma once

/// A dump of a flight recorder as comm_trace holds it: what docs/flight-recorder.md describes, with
/// names turned into numbers and times into nanoseconds since 1970.

#include <cstdint>
#include <string>
#include <vector>

#include "comm/data_type.h"
#include "comm/operations.h"
#include "comm/status.h"

namespace comm::trace {

enum class State : std::uint8_t { started, returned, complete, failed };

constexpr const char* to_string(State state) {
  switch (state) {
    case State::started: return "started";
    case State::returned: return "returned";
    case State::complete: return "complete";
    case State::failed: return "failed";
  }
  return "unknown";
}

/// The kind of a reduction, and one for none.
inline constexpr std::uint8_t kNoReduction = 0xff;

struct Entry {
  std::uint64_t seq = 0;
  std::uint64_t epoch = 0;
  std::uint64_t collective = 0;  ///< 0: it is none.
  std::uint64_t count = 0;       ///< Elements, or bytes where there is no type.
  std::uint64_t recv_count = 0;
  std::int64_t submitted = 0;
  std::int64_t ended = 0;     ///< When it was seen complete, or failed; 0 where it was not.
  std::int32_t partner = -1;  ///< Root, peer or color.
  std::int32_t source = -1;
  std::int32_t stream = 0;
  Operation op = Operation::barrier;
  DataType type = DataType::u8;
  std::uint8_t reduction = kNoReduction;
  State state = State::started;
  StatusCode result = StatusCode::ok;
  bool in_group = false;
};

struct Failure {
  std::uint64_t seq = 0;  ///< 0: there was none.
  StatusCode code = StatusCode::ok;
  std::string message;
};

struct Dump {
  std::string file;
  std::string name;  ///< Of the communicator.
  std::string host;
  int rank = -1;
  int world_size = 0;
  std::uint64_t epoch = 0;
  std::uint64_t collectives = 0;  ///< Submitted in this epoch.
  std::uint64_t submissions = 0;
  std::uint64_t refused = 0;
  std::int64_t pid = 0;
  std::int64_t created = 0;
  std::int64_t origin = 0;
  std::int64_t dumped = 0;
  Failure failure;
  std::vector<Entry> entries;
};

}  // namespace comm::trace
