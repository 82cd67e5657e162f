#pragma once

/// What `Recorded<B>` holds and does beside forwarding: its ring, the ticket that tells the ring of a
/// join, and what an operation's return means to the ring. Not for use outside recorded.h.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "comm/health/flight_recorder.h"
#include "comm/health/recorded_entry.h"
#include "comm/health/recorder_ring.h"
#include "comm/result.h"

namespace comm::detail {

class RecorderState {
 public:
  template <class B>
  RecorderState(const B& inner, bool completes_on_return, RecorderOptions options = {}) noexcept {
    options.complete_from_env().ignore();
    ring_ = RecorderRing::make(options, inner.rank(), inner.world_size(), inner.epoch(),
                               completes_on_return);
  }

  const std::shared_ptr<RecorderRing>& ring() const { return ring_; }
  FlightRecorder recorder() const { return FlightRecorder(ring_); }

  /// For a communicator made from this one; `name` is put behind its own.
  RecorderOptions options_for(const std::string& name) const;

  template <class B>
  void rebuilt(const B& inner) noexcept {
    if (ring_ != nullptr) ring_->rebuilt(inner.rank(), inner.world_size(), inner.epoch());
  }

 private:
  std::shared_ptr<RecorderRing> ring_;
};

/// Stands for the state where nothing is recorded; one type for each `B` (see `NoLogState`).
template <class B>
struct NoRecorderState {
  constexpr NoRecorderState(const B&, bool) {}
  NoRecorderState(const B&, bool, const RecorderOptions&) {}
  FlightRecorder recorder() const { return {}; }
};

/// The ticket of a backend whose work goes on after the call.
template <class T>
class RecordedTicket {
 public:
  RecordedTicket(T inner, std::shared_ptr<RecorderRing> ring, std::uint64_t sequence)
      : inner_(std::move(inner)), ring_(std::move(ring)), sequence_(sequence) {}

  Status join(Stream stream) {
    Status joined = inner_.join(stream);
    if (joined.ok() && ring_ != nullptr && sequence_ != 0)
      ring_->joined(sequence_, reinterpret_cast<std::uintptr_t>(stream.get()), stream.is_given());
    return joined;
  }

 private:
  T inner_;
  std::shared_ptr<RecorderRing> ring_;
  std::uint64_t sequence_;
};

/// These say how a failure was dealt with.
constexpr bool is_recorded_when_frozen(Operation operation) {
  return operation == Operation::attempt_reconnect || operation == Operation::shrink ||
         operation == Operation::abort;
}

/// 0 where it is not recorded.
template <class Op>
[[gnu::always_inline]] inline std::uint64_t record_begin(RecorderRing* ring, const Op& op,
                                                         int world_size) {
  const RecordedWords words = recorded_words(op, world_size);
  if constexpr (is_collective(Op::operation))
    return RecorderRing::begin_collective(ring, words.what, words.count, words.stream, words.extra);
  else
    return RecorderRing::begin_other(ring, words, is_recorded_when_frozen(Op::operation));
}

/// An operation has returned without an error.
template <class Op, bool kCompletesOnReturn>
[[gnu::always_inline]] inline void record_return(RecorderRing* ring, const Op& op,
                                                 std::uint64_t sequence) {
  constexpr Operation kOperation = Op::operation;
  if constexpr (kOperation == Operation::group_start) {
    RecorderRing::complete(ring, sequence);
    if (sequence != 0) ring->group_opened();
  } else if constexpr (kOperation == Operation::group_end) {
    RecorderRing::complete(ring, sequence);
    if (sequence != 0) ring->group_closed(kCompletesOnReturn, sequence);
  } else if constexpr (waits_for_stream(kOperation) && !kCompletesOnReturn) {
    RecorderRing::complete(ring, sequence);
    const Stream stream = info_of(op).stream;
    if (sequence != 0)
      ring->stream_done(sequence, reinterpret_cast<std::uintptr_t>(stream.get()),
                        stream.is_given());
  } else if constexpr (!is_on_stream(kOperation)) {
    RecorderRing::complete(ring, sequence);
  } else if constexpr (kCompletesOnReturn) {
    RecorderRing::complete_unless_in_group(ring, sequence);
  } else {
    RecorderRing::returned(ring, sequence);
  }
}

[[gnu::cold]] void record_failure(RecorderRing* ring, Operation operation, std::uint64_t sequence,
                                  const Status& status, bool is_healthy) noexcept;

inline const Status& status_of(const Status& status) {
  return status;
}
template <class T>
const Status& status_of(const Result<T>& result) {
  return result.status();
}

/// "/split12c1": the same on all ranks that come into one part. `shrink` is not a call of all ranks,
/// so there it is the excluded that make the name.
std::string name_of_part(const ops::Split& op, const RecorderRing& ring, std::uint64_t sequence);
std::string name_of_part(const ops::Shrink& op, const RecorderRing& ring, std::uint64_t sequence);

}  // namespace comm::detail
