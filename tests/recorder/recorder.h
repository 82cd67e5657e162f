#pragma once

/// What the tests of the flight recorder share: a recorded backend that does nothing, and dumps read
/// back as comm_trace reads them.

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "comm/decorators/recorded.h"
#include "comm/trace/reader.h"
#include "tests/core/recording_backend.h"

namespace tests {

using comm::trace::Dump;
using comm::trace::Entry;
using comm::trace::State;

inline Dump parsed(const std::string& json) {
  comm::Result<Dump> dump = comm::trace::parse_dump(json, "dump");
  REQUIRE_MESSAGE(dump.ok(), dump.message(), "\n", json);
  return std::move(*dump);
}

inline Dump dump_of(const comm::FlightRecorder& recorder) {
  return parsed(recorder.to_json());
}

/// What a test changes while the backend lives.
struct Changing : Recording {
  std::uint64_t epoch = 3;
  std::function<void()> during = {};  ///< Runs inside of a barrier.
};

struct UnfinishedTicket {
  comm::Status join(comm::Stream) { return {}; }
};

/// `kGoesOn`: what is submitted goes on after the call, as with Nccl.
template <bool kGoesOn>
class TestBackend : public RecordingBackend {
 public:
  using Ticket = std::conditional_t<kGoesOn, UnfinishedTicket, comm::CompletedTicket>;
  struct Config {
    int rank;
    int world_size;
    Changing* changing;
  };

  static comm::Result<TestBackend> create(const Config& config) {
    return TestBackend(
        std::move(*RecordingBackend::create({config.rank, config.world_size, config.changing})),
        config.changing);
  }
  std::uint64_t epoch() const { return changing_->epoch; }
  comm::Status barrier(const comm::ops::Barrier& op) {
    if (changing_->during) changing_->during();
    return RecordingBackend::barrier(op);
  }
  comm::Result<Ticket> all_reduce_deferred(const comm::ops::AllReduceDeferred& op) {
    auto made = RecordingBackend::all_reduce_deferred(op);
    if (!made.ok()) return std::move(made).status();
    return Ticket{};
  }
  comm::Result<TestBackend> split(const comm::ops::Split& op) {
    return wrapped(RecordingBackend::split(op));
  }
  comm::Result<TestBackend> shrink(const comm::ops::Shrink& op) {
    return wrapped(RecordingBackend::shrink(op));
  }

 private:
  TestBackend(RecordingBackend base, Changing* changing)
      : RecordingBackend(std::move(base)), changing_(changing) {}
  comm::Result<TestBackend> wrapped(comm::Result<RecordingBackend> made) {
    if (!made.ok()) return std::move(made).status();
    return TestBackend(std::move(*made), changing_);
  }

  Changing* changing_;
};
static_assert(comm::Backend<TestBackend<false>> && comm::Backend<TestBackend<true>>);

/// Rank 1 of 4 over backend `B`.
template <class B>
struct Recorder {
  Changing recording;
  float memory[16] = {};
  comm::Communicator<comm::Recorded<B>> c;

  explicit Recorder(comm::RecorderOptions options = {})
      : c(comm::Recorded(std::move(*B::create({1, 4, &recording})), std::move(options))) {}
  comm::DeviceSpan<float> buffer(std::size_t count) { return {memory, count}; }
  Dump dump() { return dump_of(comm::recorder_of(c)); }
  std::vector<Entry> entries() { return dump().entries; }
};

}  // namespace tests
