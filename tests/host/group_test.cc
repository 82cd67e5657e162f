// Point-to-point messages and groups.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "tests/host/ranks.h"

namespace {

using comm::DeviceSpan;
using comm::Status;
using comm::StatusCode;
using ranks::Failures;
using ranks::HostCommunicator;
using ranks::Watchdog;

std::vector<int> numbers(int rank, std::size_t n) {
  std::vector<int> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = rank * 1'000'000 + static_cast<int>(i);
  return v;
}

}  // namespace

TEST_CASE("send and receive: sizes around the ring's, many in a row") {
  const Watchdog watchdog("send and receive");
  ranks::as_threads(2, [](HostCommunicator& c, Failures& failures) {
    for (const std::size_t n :
         {0U, 1U, 2U, 3U, 5U, 100U, 4095U, 32764U, 32765U, 32768U, 100'001U}) {
      for (int i = 0; i < 5; ++i) {
        std::vector<int> x = numbers(c.rank(), n);
        const int other = 1 - c.rank();
        const Status sent =
            c.rank() == 0 ? c.send_to(DeviceSpan(x), other) : c.recv_from(DeviceSpan(x), other);
        const Status back =
            c.rank() == 0 ? c.recv_from(DeviceSpan(x), other) : c.send_to(DeviceSpan(x), other);
        if (!sent.ok() || !back.ok() || x != numbers(0, n))
          failures.add("size " + std::to_string(n));
      }
    }
  });
}

TEST_CASE("a small message is sent without waiting for its receiver") {
  ranks::as_threads(2, [](HostCommunicator& c, Failures& failures) {
    std::vector<int> x = numbers(c.rank(), 1000);
    std::vector<int> y(1000);
    if (!c.send_to(DeviceSpan(x), 1 - c.rank()).ok()) failures.add("send");
    if (!c.recv_from(DeviceSpan(y), 1 - c.rank()).ok() || y != numbers(1 - c.rank(), 1000))
      failures.add("receive");
  });
}

TEST_CASE("group: ranks that all send first do not wait for each other") {
  for (const int size : {2, 3, 5}) {
    const Watchdog watchdog("all send first");
    ranks::as_threads(size, [](HostCommunicator& c, Failures& failures) {
      // Larger than any ring; two messages for each pair, which must keep their order; zero sizes.
      const std::size_t n = 200'000;
      const int size = c.world_size();
      const std::vector<int> x = numbers(c.rank(), n);
      std::vector<std::vector<int>> first(static_cast<std::size_t>(size), std::vector<int>(n));
      std::vector<std::vector<int>> second(static_cast<std::size_t>(size), std::vector<int>(7));
      auto group = c.group();
      for (int r = 0; r < size; ++r) {
        bool ok = c.send_to(DeviceSpan(x), r).ok() && c.send_to(DeviceSpan(x.data(), 7), r).ok();
        ok = ok && c.send_to(DeviceSpan(x.data(), 0), r).ok();
        if (!ok) failures.add("send");
      }
      for (int r = 0; r < size; ++r) {
        const auto i = static_cast<std::size_t>(r);
        bool ok =
            c.recv_from(DeviceSpan(first[i]), r).ok() && c.recv_from(DeviceSpan(second[i]), r).ok();
        ok = ok && c.recv_from(DeviceSpan<int>(), r).ok();
        if (!ok) failures.add("receive");
      }
      const Status s = group.end();
      if (!s.ok()) failures.add(s.message());
      for (int r = 0; r < size; ++r) {
        const auto i = static_cast<std::size_t>(r);
        if (first[i] != numbers(r, n) || second[i] != numbers(r, 7))
          failures.add("from " + std::to_string(r));
      }
    });
  }
}

TEST_CASE(
    "group: collectives and messages mix in any order, nested groups close with the outermost") {
  const Watchdog watchdog("mixed group");
  ranks::as_threads(3, [](HostCommunicator& c, Failures& failures) {
    int sum = 1;
    int token = c.rank();
    int got = -1;
    int root = c.rank() == 2 ? 77 : 0;
    std::size_t counts[] = {1, 1, 1};
    std::vector<int> blocks(3, c.rank());
    std::vector<int> exchanged(3);
    const int next = (c.rank() + 1) % 3;
    const int previous = (c.rank() + 2) % 3;
    auto outer = c.group();
    if (c.rank() == 0) c.send_to(DeviceSpan(&token, 1), next).ignore();
    {
      auto inner = c.group();
      c.all_reduce(DeviceSpan(&sum, 1)).ignore();
      if (!inner.end().ok()) failures.add("inner");
      if (sum != 1) failures.add("ran before the end");
    }
    if (c.rank() != 0) c.send_to(DeviceSpan(&token, 1), next).ignore();
    c.broadcast(DeviceSpan(&root, 1), 2).ignore();
    c.recv_from(DeviceSpan(&got, 1), previous).ignore();
    c.all_to_all_v(DeviceSpan(blocks), counts, DeviceSpan(exchanged), counts).ignore();
    counts[0] = 999;  // Was read during the call.
    c.barrier().ignore();
    const Status s = outer.end();
    if (!s.ok()) failures.add(s.message());
    if (sum != 3 || got != previous || root != 77 || exchanged != std::vector<int>{0, 1, 2})
      failures.add("results");
  });
}

TEST_CASE("group: the depth returns to zero on every path") {
  ranks::as_threads(2, [](HostCommunicator& c, Failures& failures) {
    int x = 1;
    if (c.group_end().code() != StatusCode::invalid_argument) failures.add("unmatched end");
    {
      auto group = c.group();
      // Not possible in a group, which is spoiled by it.
      if (c.barrier_wait().code() != StatusCode::invalid_argument) failures.add("barrier_wait");
      if (c.split(0, 0).code() != StatusCode::invalid_argument) failures.add("split");
      c.all_reduce(DeviceSpan(&x, 1)).ignore();
      if (group.end().code() != StatusCode::invalid_argument) failures.add("spoiled");
    }
    if (x != 1) failures.add("a spoiled group ran");
    {
      auto dropped = c.group();
      c.all_reduce(DeviceSpan(&x, 1)).ignore();
    }
    if (x != 2) failures.add("a dropped guard closes the group");
    if (!c.all_reduce(DeviceSpan(&x, 1)).ok() || x != 4) failures.add("after");
    {
      auto group = c.group();
      c.all_reduce(DeviceSpan(&x, 1)).ignore();
      c.abort().ignore();
      if (group.end().ok()) failures.add("ended well after abort");
    }
    if (!c.attempt_reconnect().ok()) failures.add("reconnect");
    if (!c.all_reduce(DeviceSpan(&x, 1)).ok() || x != 8) failures.add("after a reconnect");
  });
}

TEST_CASE("a message to itself: in a group or as send_recv, and refused where it could only hang") {
  ranks::as_threads(1, [](HostCommunicator& c, Failures& failures) {
    std::vector<int> x = numbers(1, 300'000);
    std::vector<int> y(x.size());
    if (!c.send_recv(DeviceSpan(std::as_const(x)), 0, DeviceSpan(y), 0).ok() || y != x)
      failures.add("send_recv");
    if (c.send_to(DeviceSpan(x), 0).code() != StatusCode::invalid_argument)
      failures.add("too large");
    if (!c.send_to(DeviceSpan(x.data(), 10), 0).ok() ||
        !c.recv_from(DeviceSpan(y.data(), 10), 0).ok())
      failures.add("small");
  });
}
