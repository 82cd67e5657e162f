#pragma once

/// `RecorderRing::Notes` is what a recorder knows beside its ring: who it belongs to, where dumps go,
/// and the first failure. Nothing of it is touched by an operation that succeeds.

#include <unistd.h>

#include <cstdint>
#include <mutex>
#include <string>

#include "comm/health/recorder_ring.h"

namespace comm::detail {

struct RecorderRing::Notes {
  const RecorderOptions options;
  const ClockReading made;
  const pid_t pid = ::getpid();

  /// Guards what follows.
  mutable std::mutex mutex;
  int rank;
  int world_size;
  bool has_failed = false;  ///< In this epoch.
  std::uint64_t failed_sequence = 0;
  StatusCode code = StatusCode::ok;
  int native_code = 0;
  std::string message;
  bool has_complained = false;  ///< That a dump could not be written.
};

}  // namespace comm::detail
