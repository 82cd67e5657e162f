#pragma once

/// `FlightRecorder` is a handle on what `Recorded<B>` remembers of a communicator: its last
/// submissions, each with when it was submitted and how far it came. Whoever holds a copy may dump
/// at any time, also while operations run or hang, and after the communicator is gone.
///
///     comm::FlightRecorder recorder = comm::recorder_of(communicator);
///     if (comm::Status s = recorder.dump_to("/tmp/rank3.json"); !s.ok()) report(s.message());
///
/// Dumps hold names, numbers and times: no data, no addresses, no secrets. Their form is in
/// docs/flight-recorder.md; `//comm:comm_trace` reads the dumps of all ranks and says who is at
/// fault. A dump allocates and costs about a millisecond; recording costs what `Recorded` says.
///
/// Thread safety: all of it from any thread, but not from a signal handler (dump_on_signal.h).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "comm/status.h"

namespace comm {

/// How a recorder is set up; a default-constructed one is as the environment says.
struct RecorderOptions {
  /// Submissions that are kept: a power of two of 64 to 65536; 64 bytes each. 0: COMM_RECORDER_ENTRIES,
  /// and 1024 without it.
  std::size_t entries = 0;

  /// Names the communicator in dumps, the same on all ranks. Give names where one process has several
  /// that are not split from one another.
  std::string name = "world";

  /// Where dumps go that a failure or a signal causes; empty: COMM_RECORDER_DIR, and no file without
  /// it.
  std::string directory = {};

  /// Gets such a dump instead of a file, on the thread that failed; `context` is handed on. Must not
  /// throw. Null: the directory counts.
  void (*sink)(void* context, const char* json, std::size_t size) = nullptr;
  void* context = nullptr;

  /// The options with what the environment says in place of what was left open. Refuses numbers that
  /// are none.
  Status complete_from_env();
};

namespace detail {
class RecorderRing;
}

/// Why a dump was made.
enum class DumpReason : std::uint8_t { request, failure, signal };

class FlightRecorder {
 public:
  /// Of nothing, as over a backend that moves no data: dumping is refused.
  FlightRecorder() = default;
  explicit FlightRecorder(std::shared_ptr<detail::RecorderRing> ring) : ring_(std::move(ring)) {}

  bool is_recording() const { return ring_ != nullptr; }

  /// Submissions so far, those that have left the ring included.
  std::uint64_t submissions() const;

  /// All that is remembered, as one JSON document. Empty where nothing is recorded.
  std::string to_json(DumpReason reason = DumpReason::request) const;

  /// Writes it to a file, which appears whole or not at all.
  Status dump_to(const std::string& path, DumpReason reason = DumpReason::request) const;

  /// To the sink, or to a file of its own in the directory, that the options named.
  Status dump(DumpReason reason = DumpReason::request) const;

  /// Whether `dump` has somewhere to go.
  bool has_destination() const;

 private:
  std::shared_ptr<detail::RecorderRing> ring_;
};

}  // namespace comm
