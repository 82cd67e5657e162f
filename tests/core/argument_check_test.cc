// What the face refuses before a backend sees it, in words that say what, where, and what to do.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/testing/expect.h"
#include "tests/core/recording_backend.h"

using comm::DeviceSpan, comm::ReduceOp, comm::StatusCode, comm::testing::outcome;

namespace {

/// Rank 1 of 4, and memory.
struct Fixture {
  tests::Recording recording;
  comm::Communicator<tests::RecordingBackend> c{
      std::move(*tests::RecordingBackend::create({1, 4, &recording}))};
  float memory[64] = {};
  float other[64] = {};

  DeviceSpan<float> span(std::size_t begin, std::size_t count) { return {memory + begin, count}; }
  DeviceSpan<float> recv(std::size_t count) { return {other, count}; }

  /// Refused with these words, after the operation's name and the rank; no backend was told.
  template <class S>
  void refused(const S& s, const char* start, const char* words) {
    CHECK(s.code() == StatusCode::invalid_argument);
    comm::testing::expect_part(outcome(s), std::string(start) + ": rank 1 of 4: ");
    comm::testing::expect_part(outcome(s), words);
    CHECK(recording.seen.empty());
  }
  template <class S>
  void passes(const S& s) {
    comm::testing::expect_ok(s);
    CHECK(recording.seen.size() == 1);
    recording.seen.clear();
  }
};

constexpr std::size_t kHuge = PTRDIFF_MAX;

}  // namespace

TEST_CASE_FIXTURE(Fixture, "null with a count is refused, null without is nothing") {
  const DeviceSpan<float> null(nullptr, 3), nothing;
  const char* words = "is null but its count is 3; pass memory of 12 bytes, or count 0";
  refused(c.all_reduce(null), "all_reduce", words);
  refused(c.all_reduce(null, recv(3)), "all_reduce", "send is null");
  refused(c.all_reduce(span(0, 3), null), "all_reduce", "recv is null");
  refused(c.all_reduce_async(null), "all_reduce_async", words);
  refused(c.all_reduce_deferred(null), "all_reduce_deferred", words);
  refused(c.all_gather(null, recv(12)), "all_gather", "send is null");
  refused(c.reduce_scatter(span(0, 12), null), "reduce_scatter", "recv is null");
  refused(c.broadcast(null, 0), "broadcast", words);
  refused(c.broadcast_async(null, 0), "broadcast_async", words);
  refused(c.recv_command_u32(DeviceSpan<std::uint32_t>(nullptr, 1), 0), "recv_command_u32", "null");
  refused(c.reduce(null, nothing, ReduceOp::sum, 0), "reduce", words);
  refused(c.gather(null, nothing, 0), "gather", words);
  refused(c.scatter(nothing, null, 0), "scatter", words);
  refused(c.all_to_all(DeviceSpan<float>(nullptr, 4), recv(4)), "all_to_all", "send is null");
  refused(c.send_to(null, 0), "send_to", words);
  refused(c.recv_from(null, 0), "recv_from", words);
  refused(c.send_recv(null, 0, recv(3), 0), "send_recv", "send is null");
  refused(c.register_buffer(null), "register_buffer", words);
  passes(c.all_reduce(nothing));
  passes(c.all_gather(nothing, nothing));
  passes(c.all_to_all(nothing, nothing));
}

TEST_CASE_FIXTURE(Fixture, "a root or a peer is a rank of this communicator") {
  for (int wrong : {-1, 4, 1000, INT32_MIN}) {
    const std::string words = " is " + std::to_string(wrong) + "; it must be from 0 to 3";
    const std::string root = "root" + words, dest = "dest" + words, source = "source" + words;
    std::uint32_t word = 0;
    refused(c.broadcast(span(0, 3), wrong), "broadcast", root.c_str());
    refused(c.broadcast_async(span(0, 3), wrong), "broadcast_async", root.c_str());
    refused(c.recv_command_u32({&word, 1}, wrong), "recv_command_u32", root.c_str());
    refused(c.reduce(span(0, 3), recv(3), ReduceOp::sum, wrong), "reduce", root.c_str());
    refused(c.gather(span(0, 3), recv(12), wrong), "gather", root.c_str());
    refused(c.scatter(span(0, 12), recv(3), wrong), "scatter", root.c_str());
    refused(c.send_to(span(0, 3), wrong), "send_to", dest.c_str());
    refused(c.recv_from(span(0, 3), wrong), "recv_from", source.c_str());
    refused(c.send_recv(span(0, 3), wrong, recv(3), 0), "send_recv", dest.c_str());
    refused(c.send_recv(span(0, 3), 0, recv(3), wrong), "send_recv", source.c_str());
  }
  passes(c.broadcast(span(0, 3), 3));
  passes(c.send_to(span(0, 3), 1));
}

TEST_CASE_FIXTURE(Fixture, "a count that overflows is refused, whatever multiplies it") {
  const DeviceSpan<float> huge(memory, kHuge / 4 + 1);
  refused(c.all_reduce(huge), "all_reduce", "more than memory can hold");
  refused(c.all_reduce(DeviceSpan<float>(memory, SIZE_MAX)), "all_reduce", "more than memory");
  refused(c.all_gather(DeviceSpan<float>(memory, SIZE_MAX / 4 + 2), recv(4)), "all_gather", "more");
  refused(c.all_gather(DeviceSpan<std::byte>(), DeviceSpan<std::byte>((std::byte*)other, 1)),
          "all_gather", "recv has 1 elements but must have 4 times the 0 of send");
  refused(c.reduce_scatter(recv(4), DeviceSpan<float>(memory, kHuge / 4)), "reduce_scatter",
          "has 4");
  const std::size_t wraps[4] = {SIZE_MAX, 2, 0, 0}, fours[4] = {1, 1, 1, 1};
  refused(c.all_to_all_v(span(0, 1), wraps, recv(4), fours), "all_to_all_v", "do not add up");
  refused(c.symmetric_buffer<double>(SIZE_MAX / 4), "symmetric_alloc", "more than memory can hold");
}

TEST_CASE_FIXTURE(Fixture, "sizes that must fit one another do") {
  refused(c.all_reduce(span(0, 3), recv(4)), "all_reduce", "send has 3 elements and recv has 4");
  refused(c.all_gather(span(0, 3), recv(11)), "all_gather",
          "recv has 11 elements but must have 4 ");
  refused(c.reduce_scatter(span(0, 11), recv(3)), "reduce_scatter", "send has 11 elements");
  refused(c.reduce(span(0, 3), recv(2), ReduceOp::sum, 1), "reduce", "send has 3");
  refused(c.gather(span(0, 3), recv(3), 1), "gather", "recv has 3");
  refused(c.scatter(span(0, 3), recv(3), 1), "scatter", "send has 3");
  refused(c.all_to_all(span(0, 8), recv(4)), "all_to_all", "send has 8 elements and recv has 4");
  refused(c.all_to_all(span(0, 6), recv(6)), "all_to_all", "send has 6 elements but must have 4 ");
  const std::size_t counts[4] = {1, 2, 3, 4}, fours[4] = {1, 1, 1, 1};
  refused(c.all_to_all_v(span(0, 9), counts, recv(4), fours), "all_to_all_v", "4 counts of send");
  refused(c.all_to_all_v(span(0, 10), counts, recv(5), fours), "all_to_all_v", "counts of recv");
  refused(c.all_to_all_v(span(0, 10), nullptr, recv(4), fours), "all_to_all_v", "send are null");
  std::uint32_t words[2] = {};
  refused(c.recv_command_u32({words, 2}, 0), "recv_command_u32", "exactly one element");
  // Away from the root nobody looks at what is the root's.
  passes(c.reduce(span(0, 3), DeviceSpan<float>(), ReduceOp::sum, 0));
  passes(c.gather(span(0, 3), DeviceSpan<float>(), 0));
  passes(c.scatter(DeviceSpan<float>(), recv(3), 0));
}

TEST_CASE_FIXTURE(Fixture, "buffers are disjoint, or in place exactly") {
  // In place: the same; this rank's block of the whole; the root's.
  passes(c.all_reduce(span(0, 8), span(0, 8)));
  passes(c.all_gather(span(3, 3), span(0, 12)));
  passes(c.reduce_scatter(span(0, 12), span(3, 3)));
  passes(c.reduce(span(0, 3), span(0, 3), ReduceOp::sum, 1));
  passes(c.gather(span(3, 3), span(0, 12), 1));
  passes(c.scatter(span(0, 12), span(3, 3), 1));
  // Side by side.
  passes(c.all_reduce(span(0, 8), span(8, 8)));
  passes(c.all_reduce(span(8, 8), span(0, 8)));
  passes(c.all_to_all(span(0, 8), span(8, 8)));

  refused(c.all_reduce(span(0, 8), span(1, 8)), "all_reduce",
          "overlap; pass disjoint buffers, or ");
  refused(c.all_gather(span(0, 3), span(0, 12)), "all_gather", "send (");
  refused(c.all_gather(span(4, 3), span(0, 12)), "all_gather", "overlap");
  refused(c.reduce_scatter(span(0, 12), span(0, 3)), "reduce_scatter", ": recv (");
  refused(c.reduce(span(0, 3), span(2, 3), ReduceOp::sum, 1), "reduce", "overlap");
  refused(c.gather(span(0, 3), span(0, 12), 1), "gather", ": send (");
  refused(c.scatter(span(0, 12), span(0, 3), 1), "scatter", ": recv (");
  refused(c.all_to_all(span(0, 8), span(0, 8)), "all_to_all", "has no in-place form");
  refused(c.send_recv(span(0, 8), 0, span(7, 8), 0), "send_recv", "has no in-place form");
  const std::size_t fours[4] = {1, 1, 1, 1};
  refused(c.all_to_all_v(span(0, 4), fours, span(3, 4), fours), "all_to_all_v", "in-place form");
}

TEST_CASE_FIXTURE(Fixture, "the message names the place that would have been in place") {
  char place[64];
  std::snprintf(place, sizeof place, "or recv at %p, which is in place",
                static_cast<const void*>(memory + 3));
  refused(c.reduce_scatter(span(0, 12), span(4, 3)), "reduce_scatter", place);
}

TEST_CASE_FIXTURE(Fixture,
                  "an address is aligned to its element; what is no element may lie anywhere") {
  auto* odd = reinterpret_cast<float*>(reinterpret_cast<char*>(memory) + 2);
  refused(c.all_reduce(DeviceSpan<float>(odd, 3)), "all_reduce", "not aligned to its element of 4");
  struct Packed {
    char bytes[4];
  };
  auto* anywhere = reinterpret_cast<Packed*>(reinterpret_cast<char*>(memory) + 1);
  passes(c.broadcast(DeviceSpan<Packed>(anywhere, 3), 0));
}

TEST_CASE_FIXTURE(Fixture, "split and shrink name what they cannot do") {
  refused(c.split(-2, 0), "split", "kNoColor (-1)");
  refused(c.shrink({}), "shrink", "no rank is excluded");
  refused(c.shrink({4}), "shrink", "an excluded rank is 4");
  refused(c.shrink({0, 1}), "shrink", "the calling rank cannot exclude itself");
  passes(c.split(comm::kNoColor, 0));
  passes(c.shrink({0, 2}));
}

TEST_CASE_FIXTURE(Fixture, "the first complaint wins") {
  refused(c.broadcast(DeviceSpan<float>(nullptr, 3), 9), "broadcast", "is null");
}

TEST_CASE("a rank that split left out is told so") {
  tests::Recording recording;
  comm::Communicator c(std::move(*tests::RecordingBackend::create({-1, 0, &recording})));
  int word = 0;
  comm::testing::expect_part(outcome(c.broadcast(DeviceSpan(&word, 1), 0)), "in no communicator");
  comm::testing::expect_ok(c.all_to_all(DeviceSpan<int>(), DeviceSpan<int>()));
}
