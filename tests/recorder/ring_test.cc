// comm/health/recorder_ring.h: several threads record while others read. What is read belongs together,
// and ThreadSanitizer has nothing to say.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/health/recorded_entry.h"
#include "comm/health/recorder_ring.h"
#include "comm/testing/run_threads.h"

using comm::Operation, comm::detail::RecordedEntry, comm::detail::RecorderRing;

namespace {

constexpr std::uint64_t kSum = static_cast<std::uint64_t>(Operation::all_reduce) |
                               RecorderRing::kCollective << RecorderRing::kFlagsShift;

std::shared_ptr<RecorderRing> new_ring(bool completes_on_return) {
  comm::RecorderOptions options;
  options.entries = 64;
  auto ring = RecorderRing::make(options, 0, 2, 0, completes_on_return);
  REQUIRE(ring != nullptr);
  return ring;
}

}  // namespace

TEST_CASE("ring: what several threads record and others read at once is never torn") {
  constexpr int kWriters = 3;
  constexpr std::uint64_t kEach = 20'000;
  const auto ring = new_ring(false);
  std::atomic<int> writing{kWriters};
  std::atomic<std::uint64_t> torn{0};
  std::atomic<std::uint64_t> read{0};
  comm::testing::run_threads(kWriters + 2, [&](int thread) {
    if (thread < kWriters) {
      for (std::uint64_t i = 0; i < kEach; ++i) {
        const std::uint64_t value = i * kWriters + static_cast<std::uint64_t>(thread);
        const std::uint64_t sequence =
            RecorderRing::begin_collective(ring.get(), kSum, value, value, value);
        RecorderRing::returned(ring.get(), sequence);
        if (i % 16 == 0) ring->stream_done(sequence, 0, false);
      }
      --writing;
      return;
    }
    do {
      std::uint64_t before = 0;
      for (const RecordedEntry& e : ring->read()) {
        const bool is_whole = e.words.count == e.words.extra && e.words.count == e.words.stream &&
                              e.sequence > before && e.collective != 0;
        torn += is_whole ? 0 : 1;
        before = e.sequence;
        ++read;
      }
    } while (writing != 0);
  });
  CHECK(torn == 0);
  CHECK(read > 0);
  CHECK(ring->submissions() == kWriters * kEach);
  CHECK(ring->collectives() == kWriters * kEach);
  const std::vector<RecordedEntry> last = ring->read();
  REQUIRE(last.size() == 64);
  CHECK(last.front().sequence == kWriters * kEach - 63);
}

TEST_CASE("ring: a call that returns after its slot went to another is not taken for that one") {
  const auto ring = new_ring(true);
  const std::uint64_t slow = RecorderRing::begin_collective(ring.get(), kSum, 1, 0, 0);
  std::uint64_t last = 0;
  for (int i = 0; i < 64; ++i) last = RecorderRing::begin_collective(ring.get(), kSum, 2, 0, 0);
  RecorderRing::complete(ring.get(), slow);
  CHECK(ring->read().back().sequence == last);
  CHECK(ring->read().back().state == comm::detail::SubmissionState::started);
  RecorderRing::complete(ring.get(), last);
  CHECK(ring->read().back().state == comm::detail::SubmissionState::complete);
}

TEST_CASE("ring: without one, nothing is recorded and everything is allowed") {
  CHECK(RecorderRing::begin_collective(nullptr, kSum, 1, 0, 0) == 0);
  RecorderRing::returned(nullptr, 0);
  RecorderRing::complete(nullptr, 0);
  RecorderRing::complete_unless_in_group(nullptr, 0);
  CHECK(RecorderRing::make({}, -1, 1, 0, true) == nullptr);
}

TEST_CASE("ring: times are those of the operating system's clocks") {
  const comm::detail::RecorderClock clock;
  const comm::detail::ClockReading first = clock.read();
  comm::detail::ClockReading now = first;
  while (now.monotonic_ns - first.monotonic_ns < 2'000'000) now = clock.read();
  const comm::detail::ClockReading between = now;
  while (now.monotonic_ns - first.monotonic_ns < 4'000'000) now = clock.read();
  const comm::detail::TickScale scale(first, now);
  const auto found = static_cast<std::int64_t>(scale.since_first(between.ticks));
  const std::int64_t off = found - (between.monotonic_ns - first.monotonic_ns);
  CHECK(off < 1'000'000);  // In a quiet moment it is under a microsecond.
  CHECK(off > -1'000'000);
  CHECK(scale.since_first(first.ticks - 1000) == 0);
}
