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
  RecorderOptions options_for(std::string name) const;

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
  NoRecorderState(const B&, bool, RecorderOptions) {}
  FlightRecorder recorder() const { return {}; }
};

/// The ticket of a backend whose work goes on after the call.
template <class T>
class RecordedTicket {
 public:
  RecordedTicket(T inner, std::shared_ptr<RecorderRing> ring, const RecorderRing::Token& token)
      : inner_(std::move(inner)), ring_(std::move(ring)), token_(token) {}

  Status join(Stream stream) {
    Status joined = inner_.join(stream);
    if (joined.ok() && ring_ != nullptr && token_.sequence != 0)
      ring_->joined(token_, reinterpret_cast<std::uintptr_t>(stream.get()), stream.is_given());
    return joined;
  }

 private:
  T inner_;
  std::shared_ptr<RecorderRing> ring_;
  RecorderRing::Token token_;
};

/// These say how a failure was dealt with.
constexpr bool is_recorded_when_frozen(Operation operation) {
  return operation == Operation::attempt_reconnect || operation == Operation::shrink ||
         operation == Operation::abort;
}

inline const Status& status_of(const Status& status) {
  return status;
}
template <class T>
const Status& status_of(const Result<T>& result) {
  return result.status();
}

/// An operation has returned without an error.
template <class Op, bool kCompletesOnReturn>
[[gnu::always_inline]] inline void record_return(RecorderRing& ring, const Op& op,
                                                 const RecorderRing::Token& token) {
  constexpr Operation kOperation = Op::operation;
  if constexpr (kOperation == Operation::group_start) {
    ring.complete(token);
    ring.group_opened();
  } else if constexpr (kOperation == Operation::group_end) {
    ring.complete(token);
    ring.group_closed();
    if (kCompletesOnReturn && !ring.in_group()) ring.group_done(token);
  } else if constexpr (waits_for_stream(kOperation)) {
    ring.complete(token);
    if constexpr (!kCompletesOnReturn) {
      const Stream stream = info_of(op).stream;
      ring.stream_done(token, reinterpret_cast<std::uintptr_t>(stream.get()), stream.is_given());
    }
  } else if constexpr (!is_on_stream(kOperation)) {
    ring.complete(token);
  } else if constexpr (kCompletesOnReturn) {
    if (ring.in_group()) [[unlikely]]
      ring.returned(token);
    else
      ring.complete(token);
  } else {
    ring.returned(token);
  }
}

[[gnu::cold]] void record_failure(RecorderRing& ring, Operation operation,
                                  const RecorderRing::Token& token, const Status& status,
                                  bool is_healthy) noexcept;

/// "/split12c1": the same on all ranks that come into one part. `shrink` is not a call of all ranks,
/// so there it is the excluded that make the name.
std::string name_of_part(const ops::Split& op, const RecorderRing::Token& token);
std::string name_of_part(const ops::Shrink& op, const RecorderRing::Token& token);

}  // namespace comm::detail
