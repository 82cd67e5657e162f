// Communicators made of communicators, and one that is rebuilt.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <sys/mman.h>

#include <numeric>

#include "tests/host/ranks.h"

namespace {

using comm::DeviceSpan;
using comm::Status;
using comm::StatusCode;
using ranks::Failures;
using ranks::HostCommunicator;
using ranks::Processes;
using ranks::Watchdog;

constexpr int kGood = 42;

bool says(const Status& s, const std::string& words) {
  return std::string(s.message()).find(words) != std::string::npos;
}

/// The sum over ranks of `x`, or -1.
int sum(HostCommunicator& c, int x) {
  return c.all_reduce(DeviceSpan(&x, 1)).ok() ? x : -1;
}

}  // namespace

TEST_CASE("split: colors make communicators of their own, ranked by key and then by old rank") {
  ranks::as_threads(6, [](HostCommunicator& c, Failures& failures) {
    const int color = c.rank() % 2;
    const int key = c.rank() < 2 ? 5 : 1;  // 0 and 1 go last.
    auto part = c.split(color, key);
    if (!part.ok()) return failures.add(part.message());
    const int expected_rank = c.rank() < 2 ? 2 : c.rank() / 2 - 1;
    if (part->rank() != expected_rank || part->world_size() != 3) failures.add("rank or size");
    // The parts are busy at the same time, each in its own way.
    for (int i = 0; i < 100 + 50 * color; ++i)
      if (sum(*part, c.rank()) != (color == 0 ? 6 : 9)) failures.add("sum of a part");
    std::vector<int> all(3);
    const int own = c.rank();
    if (!part->all_gather(DeviceSpan(&own, 1), DeviceSpan(all)).ok() ||
        all != std::vector<int>{2 + color, 4 + color, color})
      failures.add("order");
    auto pair = part->split(part->rank() == 1 ? comm::kNoColor : 7, 0);
    if (!pair.ok()) return failures.add(pair.message());
    if (part->rank() == 1) {
      int x = 0;
      if (pair->rank() != -1 || pair->is_healthy() || pair->all_reduce(DeviceSpan(&x, 1)).ok() ||
          pair->barrier().ok())
        failures.add("no color");
    } else if (sum(*pair, 1) != 2) {
      failures.add("part of a part");
    }
    if (sum(c, 1) != 6) failures.add("the whole, after");
  });
}

TEST_CASE("split: a failure in one part leaves the others and the whole as they were") {
  ranks::as_threads(4, [](HostCommunicator& c, Failures& failures) {
    auto part = c.split(c.rank() / 2, 0);
    if (!part.ok()) return failures.add(part.message());
    if (c.rank() == 0) part->abort().ignore();
    const bool works = sum(*part, 1) == 2;
    if (works != (c.rank() >= 2)) failures.add("parts");
    if (c.rank() < 2 && part->attempt_reconnect().code() != StatusCode::unsupported)
      failures.add("a part cannot reconnect alone");
    if (sum(c, 1) != 4) failures.add("the whole");
  });
}

TEST_CASE("split: the memory of parts that are gone is given back") {
  ranks::as_threads(2, [](HostCommunicator& c, Failures& failures) {
    for (int i = 0; i < 300; ++i) {
      auto part = c.split(0, 0);
      if (!part.ok()) return failures.add(part.message());
      if (sum(*part, 1) != 2) failures.add("sum");
      if (!part->barrier().ok()) failures.add("barrier");
    }
  });
}

TEST_CASE("shrink: the ranks that stay go on after a death, in the old order") {
  const Watchdog watchdog("shrink");
  Processes world(4, [](HostCommunicator& c) {
    if (sum(c, 1) != 4) return 1;
    if (c.rank() == 1) raise(SIGKILL);
    int x = 1;
    Status s;
    while (s.ok()) s = c.all_reduce(DeviceSpan(&x, 1));
    auto rest = c.shrink({1});
    if (!rest.ok()) {
      std::fprintf(stderr, "%s\n", rest.message());
      return 2;
    }
    const int expected = c.rank() == 0 ? 0 : c.rank() - 1;
    if (rest->rank() != expected || rest->world_size() != 3) return 3;
    for (int i = 0; i < 1000; ++i)
      if (sum(*rest, c.rank()) != 5) return 4;
    return rest->is_healthy() && !c.is_healthy() ? kGood : 5;
  });
  CHECK(world.wait_for(1) == -SIGKILL);
  for (const int r : {0, 2, 3}) CHECK(world.wait_for(r) == kGood);
}

TEST_CASE("shrink: a dead rank that was not excluded is named, ranks that disagree too") {
  const Watchdog watchdog("shrink without the dead");
  Processes world(3, [](HostCommunicator& c) {
    if (sum(c, 1) != 3) return 1;
    if (c.rank() == 1) raise(SIGKILL);
    int x = 1;
    Status s;
    while (s.ok()) s = c.all_reduce(DeviceSpan(&x, 1));
    if (c.rank() == 0) return kGood;  // It leaves; rank 2 wants it.
    const auto rest = c.shrink({0});
    return rest.code() == StatusCode::peer_lost && says(rest.status(), "rank 1") ? kGood : 2;
  });
  for (const int r : {0, 2}) CHECK(world.wait_for(r) == kGood);

  ranks::as_threads(3, [](HostCommunicator& c, Failures& failures) {
    if (c.rank() == 2) return;
    const auto rest = c.rank() == 0 ? c.shrink({2}) : c.shrink({2, 2});
    if (!rest.ok()) failures.add(rest.message());
  });
}

TEST_CASE("attempt_reconnect: all ranks come, the epoch is new, everything works again") {
  ranks::as_threads(3, [](HostCommunicator& c, Failures& failures) {
    const std::uint64_t before = c.epoch();
    for (int round = 1; round <= 3; ++round) {
      if (c.rank() == round - 1) c.abort().ignore();
      int x = 1;
      Status s;
      while (s.ok()) s = c.all_reduce(DeviceSpan(&x, 1));
      if (c.is_healthy()) failures.add("healthy after abort");
      s = c.attempt_reconnect();
      if (!s.ok()) return failures.add(s.message());
      if (c.epoch() != before + static_cast<std::uint64_t>(round)) failures.add("epoch");
      if (!c.is_healthy() || sum(c, 1) != 3) failures.add("after reconnect");
    }
    // A rank that knows of no failure takes part like all others.
    if (!c.attempt_reconnect().ok() || c.epoch() != before + 4) failures.add("while all is well");
  });
}

TEST_CASE("attempt_reconnect: threads that call it together reconnect once") {
  ranks::as_threads(2, [](HostCommunicator& c, Failures& failures) {
    if (sum(c, 1) != 2) failures.add("before");
    const std::uint64_t before = c.epoch();
    c.abort().ignore();
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&] {
        if (c.is_healthy()) return;  // Came when the others had done it.
        const Status s = c.attempt_reconnect();
        if (!s.ok()) failures.add(s.message());
      });
    for (std::thread& t : threads) t.join();
    if (c.epoch() != before + 1) failures.add("epoch");
    if (sum(c, 1) != 2) failures.add("after");
  });
}

TEST_CASE("attempt_reconnect: a restarted process takes the place of one that died") {
  const Watchdog watchdog("restarted process");
  const auto listener = ranks::new_listener();
  const auto start = [&](int rank, auto body) {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    signal(SIGTERM, SIG_DFL);
    alarm(100);
    comm::Host::Config config;
    config.launch = ranks::launch_of(rank, 3, listener);
    config.log = [](std::string_view) {};
    {
      auto made = HostCommunicator::create(config);
      if (!made.ok()) {
        std::fprintf(stderr, "rank %d: %s\n", rank, made.message());
        _exit(1);
      }
      const int status = body(*made);
      _exit(status);
    }
  };
  const auto survivor = [](HostCommunicator& c) {
    int x = 1;
    Status s;
    while (s.ok()) s = c.all_reduce(DeviceSpan(&x, 1));
    s = c.attempt_reconnect();
    if (!s.ok()) std::fprintf(stderr, "reconnect: %s\n", s.message());
    return s.ok() && sum(c, 1) == 3 && c.barrier().ok() ? kGood : 1;
  };
  const pid_t first = start(0, survivor);
  const pid_t second = start(1, survivor);
  const pid_t dies = start(2, [](HostCommunicator& c) {
    sum(c, 1);
    raise(SIGKILL);
    return 0;
  });
  int status = 0;
  waitpid(dies, &status, 0);
  CHECK(WIFSIGNALED(status));
  const pid_t restarted =
      start(2, [](HostCommunicator& c) { return sum(c, 1) == 3 && c.barrier().ok() ? kGood : 1; });
  for (const pid_t pid : {first, second, restarted}) {
    waitpid(pid, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == kGood);
  }
}

TEST_CASE(
    "attempt_reconnect: if a rank does not come nobody starts, it is named, and all may try "
    "again") {
  const Watchdog watchdog("reconnect without one");
  std::atomic<int> failed{0};
  ranks::as_threads(
      3,
      [&](HostCommunicator& c, Failures& failures) {
        if (sum(c, 1) != 3) failures.add("before");
        c.abort().ignore();
        if (c.rank() != 2) {
          const Status s = c.attempt_reconnect();
          if (s.ok() || !says(s, "rank 2")) failures.add(std::string("alone: ") + s.message());
          if (c.is_healthy() || c.barrier().ok()) failures.add("healthy without rank 2");
          ++failed;
        }
        while (failed < 2) std::this_thread::yield();
        Status s;
        for (int attempt = 0; attempt < 100; ++attempt) {
          s = c.attempt_reconnect();
          if (s.ok()) break;
        }
        if (!s.ok()) return failures.add(std::string("together: ") + s.message());
        if (sum(c, 1) != 3) failures.add("after");
      },
      [](comm::Host::Config& config) {
        config.reconnect_timeout = std::chrono::milliseconds(400);
      });
}

TEST_CASE("symmetric memory: collectives on it equal those on ordinary memory, mixed with it too") {
  for (const int size : {1, 2, 3, 4}) {
    const Watchdog watchdog("symmetric memory");
    ranks::as_threads(size, [](HostCommunicator& c, Failures& failures) {
      const std::size_t n = 50'003;
      const auto world = static_cast<std::size_t>(c.world_size());
      auto a = c.symmetric_buffer<float>(n * world);
      auto b = c.symmetric_buffer<float>(n * world);
      if (!a.ok() || !b.ok()) return failures.add(a.ok() ? b.message() : a.message());
      std::vector<float> ordinary(n * world);
      const auto value = [](int rank, std::size_t i) {
        return static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 13) % 1000);
      };
      // Round 1: all in symmetric memory; 2: rank 0 is not; 3: at another offset on each rank.
      for (int round = 1; round <= 3; ++round) {
        float* buffer = round == 2 && c.rank() == 0 ? ordinary.data() : a->data();
        if (round == 3) buffer += c.rank();
        const DeviceSpan<float> x(buffer, n);
        for (std::size_t i = 0; i < n; ++i) buffer[i] = value(c.rank(), i);
        const auto out = c.all_reduce(x, b->span().first(n));
        const Status in_place = c.all_reduce(x);
        if (!out.ok() || !in_place.ok()) return failures.add("all_reduce");
        for (std::size_t i = 0; i < n; ++i) {
          float expected = value(0, i);
          for (int r = 1; r < c.world_size(); ++r) expected += value(r, i);
          if (buffer[i] != expected || b->data()[i] != expected)
            return failures.add("sum at " + std::to_string(i) + " round " + std::to_string(round));
          buffer[i] = value(c.rank(), i);
        }
        if (!c.all_gather(DeviceSpan<const float>(x), b->span()).ok()) failures.add("all_gather");
        for (std::size_t i = 0; i < n * world; ++i)
          if (b->data()[i] != value(static_cast<int>(i / n), i % n))
            return failures.add("gathered");
        std::copy(b->data(), b->data() + n * world, a->data());
        std::vector<float> share(n);
        if (!c.reduce_scatter(DeviceSpan<const float>(a->span()), DeviceSpan(share)).ok())
          failures.add("reduce_scatter");
        for (std::size_t i = 0; i < n; ++i)
          if (share[i] != value(c.rank(), i) * static_cast<float>(world))
            return failures.add("share");
        if (!c.all_to_all(DeviceSpan<const float>(a->span()), b->span()).ok())
          failures.add("all_to_all");
        for (std::size_t i = 0; i < n * world; ++i)
          if (b->data()[i] != value(c.rank(), i % n)) return failures.add("exchanged");
        if (!c.broadcast(a->span(), c.world_size() - 1).ok()) failures.add("broadcast");
      }
      // Freed at different times, while others go on.
      if (c.rank() == 0 && !(a->release().ok() && b->release().ok())) failures.add("release");
      std::vector<float> big(n, 1);
      if (!c.all_reduce(DeviceSpan(big)).ok() || big[n - 1] != static_cast<float>(world))
        failures.add("after a free");
      if (c.symmetric_free(&big).ok() || c.symmetric_free(nullptr).ok())
        failures.add("freed what it never allocated");
    });
  }
}

TEST_CASE("symmetric_alloc: too much is an error on all ranks, and the communicator goes on") {
  ranks::as_threads(2, [](HostCommunicator& c, Failures& failures) {
    for (const std::size_t bytes : {std::size_t{1} << 44, ~std::size_t{0} / 2, ~std::size_t{0}}) {
      const auto memory = c.symmetric_alloc(bytes);
      if (memory.ok() || !says(memory.status(), "bytes")) failures.add(memory.message());
      if (sum(c, 1) != 2) failures.add("after");
    }
    const auto none = c.symmetric_alloc(0);
    if (!none.ok() || !c.symmetric_free(*none).ok()) failures.add("zero bytes");
  });
}

TEST_CASE("symmetric memory keeps its place and content across a reconnect") {
  ranks::as_threads(2, [](HostCommunicator& c, Failures& failures) {
    auto a = c.symmetric_buffer<int>(100'000);
    if (!a.ok()) return failures.add(a.message());
    std::iota(a->data(), a->data() + a->size(), c.rank());
    if (!c.barrier().ok()) failures.add("barrier");
    if (c.rank() == 0) c.abort().ignore();
    int x = 1;
    Status s;
    while (s.ok()) s = c.all_reduce(DeviceSpan(&x, 1));
    s = c.attempt_reconnect();
    if (!s.ok()) return failures.add(s.message());
    for (std::size_t i = 0; i < a->size(); ++i)
      if (a->data()[i] != static_cast<int>(i) + c.rank()) return failures.add("content");
    if (!c.all_reduce(a->span()).ok() || a->data()[99'999] != 2 * 99'999 + 1) failures.add("sum");
    auto b = c.symmetric_buffer<int>(100'000);
    if (!b.ok()) return failures.add(b.message());
    std::fill(b->data(), b->data() + b->size(), 1);
    if (!c.all_reduce(b->span()).ok() || b->data()[99'999] != 2) failures.add("new buffer");
    if (!a->release().ok() || !b->release().ok()) failures.add("release");
  });
}
