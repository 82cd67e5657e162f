// Failure and return on the Host backend: what a rank is told, how it comes back, what is left.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <sys/mman.h>

#include <algorithm>
#include <barrier>
#include <cstring>

#include "tests/health/held.h"
#include "tests/host/ranks.h"

namespace {

using comm::DeviceSpan;
using comm::Status;
using comm::StatusCode;
using ranks::Failures;
using ranks::HostCommunicator;
using ranks::Processes;
using ranks::Watchdog;
using std::chrono::milliseconds;

constexpr int kGood = 42;

bool says(const Status& s, const std::string& words) {
  return std::string(s.message()).find(words) != std::string::npos;
}

int sum(HostCommunicator& c) {
  int x = 1;
  return c.all_reduce(DeviceSpan(&x, 1)).ok() ? x : -1;
}

/// Ranks as threads that say nothing in the log.
template <class Body>
void as_threads(int size, Body body) {
  ranks::as_threads(size, body,
                    [](comm::Host::Config& config) { config.log = [](std::string_view) {}; });
}

struct Shared {
  std::atomic<int> at{0};
  void reach(int step) { at.store(step); }
  void wait(int step) const {
    while (at.load() < step) std::this_thread::yield();
  }
  static Shared& make() {
    void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return *::new (memory) Shared;
  }
};

}  // namespace

TEST_CASE("attempt_reconnect: a rank that knows of no failure takes part") {
  as_threads(3, [](HostCommunicator& c, Failures& failures) {
    if (sum(c) != 3) failures.add("before");
    const std::uint64_t before = c.epoch();
    // Rank 0 alone has something to repair; the others only do as it does.
    if (c.rank() == 0) c.abort().ignore();
    const Status s = c.attempt_reconnect();
    if (!s.ok()) return failures.add(s.message());
    if (c.epoch() != before + 1) failures.add("epoch " + std::to_string(c.epoch()));
    if (sum(c) != 3) failures.add("after");
  });
}

TEST_CASE(
    "attempt_reconnect: the thread that comes when another has repaired its failure is spared") {
  as_threads(2, [](HostCommunicator& c, Failures& failures) {
    const std::uint64_t before = c.epoch();
    c.abort().ignore();
    std::atomic<int> step{0};
    std::thread late([&] {
      if (c.is_healthy()) failures.add("healthy");
      step = 1;
      while (step != 2) std::this_thread::yield();
      const Status s = c.attempt_reconnect();
      if (!s.ok()) failures.add(s.message());
    });
    while (step != 1) std::this_thread::yield();
    const Status s = c.attempt_reconnect();
    if (!s.ok()) failures.add(s.message());
    step = 2;
    late.join();
    if (c.epoch() != before + 1) failures.add("epoch " + std::to_string(c.epoch()));
    if (sum(c) != 2) failures.add("after");
  });
}

TEST_CASE("a rank that is stopped beyond its deadline and continued with its work done succeeds") {
  const Watchdog watchdog("stopped beyond the deadline");
  Shared& shared = Shared::make();
  Processes world(
      2,
      [&](HostCommunicator& c) {
        int x = 1;
        if (c.rank() == 1) {
          shared.reach(1);
          // Waits for rank 0, is stopped meanwhile, and looks at the clock when it is too late.
          return c.recv_from(DeviceSpan(&x, 1), 0).ok() && x == 7 ? kGood : 1;
        }
        shared.wait(2);
        x = 7;
        const bool sent = c.send_to(DeviceSpan(&x, 1), 1).ok();
        shared.reach(3);
        shared.wait(4);
        return sent ? kGood : 1;
      },
      [](comm::Host::Config& config) { config.collective_timeout = milliseconds(1500); });
  shared.wait(1);
  usleep(100'000);  // Asleep in its wait by now; if not, less is tested, and nothing fails.
  world.kill_rank(1, SIGSTOP);
  usleep(1'600'000);
  shared.reach(2);
  shared.wait(3);
  world.kill_rank(1, SIGCONT);
  CHECK(world.wait_for(1) == kGood);
  shared.reach(4);
  CHECK(world.wait_for(0) == kGood);
}

TEST_CASE("200 times abort and reconnect leave descriptors, threads, mappings and memory flat") {
  comm::test::Held before, after;
  std::barrier all(3);
  as_threads(3, [&](HostCommunicator& c, Failures& failures) {
    auto kept = c.symmetric_buffer<int>(1000);
    if (!kept.ok()) return failures.add(kept.message());
    for (int i = 0; i < 200; ++i) {
      all.arrive_and_wait();
      if (i == 20 && c.rank() == 0) before = comm::test::Held::now();
      all.arrive_and_wait();
      if (c.rank() == i % 3) c.abort().ignore();
      const Status s = c.attempt_reconnect();
      if (!s.ok()) return failures.add(s.message());
      if (sum(c) != 3) failures.add("sum");
    }
    all.arrive_and_wait();
    if (c.rank() == 0) after = comm::test::Held::now();
    all.arrive_and_wait();
    if (c.epoch() != 200) failures.add("epoch");
  });
  CHECK(after.descriptors <= before.descriptors);
  CHECK(after.threads <= before.threads);
  CHECK(after.mappings <= before.mappings + 4);
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr long kOverhead = 128 * 1024;  // What a sanitizer keeps of what was freed.
#else
  constexpr long kOverhead = 0;
#endif
  CHECK(after.kilobytes <= before.kilobytes + 8 * 1024 + kOverhead);
}

TEST_CASE("a process that exits without leaving is lost at once, one that leaves is named too") {
  for (const bool in_order : {false, true}) {
    const Watchdog watchdog("exit");
    Processes world(3, [&](HostCommunicator& c) {
      if (sum(c) != 3) return 1;
      if (c.rank() == 1) {
        if (!in_order) _exit(7);
        return 7;
      }
      const Status s = c.barrier();
      return s.code() == StatusCode::peer_lost && says(s, "rank 1 ") ? kGood : 2;
    });
    CHECK(world.wait_for(1) == 7);
    CHECK(world.wait_for(0) == kGood);
    CHECK(world.wait_for(2) == kGood);
  }
}

TEST_CASE(
    "a rank that is ended by SIGTERM or SIGKILL is named by every survivor, whichever it is") {
  for (const int signal : {SIGTERM, SIGKILL}) {
    for (int victim = 0; victim < 3; ++victim) {
      CAPTURE(signal);
      CAPTURE(victim);
      const Watchdog watchdog("ended by a signal");
      Shared& shared = Shared::make();
      Processes world(3, [&](HostCommunicator& c) {
        shared.at.fetch_add(1);
        Status s;
        std::vector<float> x(10'000);
        while (s.ok()) s = c.all_reduce(DeviceSpan(x));
        const std::string who = "rank " + std::to_string(victim);
        const bool is_named = s.code() == StatusCode::peer_lost &&
                              (says(s, who + " is lost: ") || says(s, who + " (pid "));
        if (!is_named) std::fprintf(stderr, "rank %d: %s\n", c.rank(), s.message());
        return is_named && !c.is_healthy() ? kGood : 1;
      });
      shared.wait(3);
      world.kill_rank(victim, signal);
      for (int r = 0; r < 3; ++r) CHECK(world.wait_for(r) == (r == victim ? -signal : kGood));
    }
  }
}

TEST_CASE("shrink goes on without a rank that was killed, and a second death is noticed as well") {
  const Watchdog watchdog("shrink");
  Shared& shared = Shared::make();
  Processes world(4, [&](HostCommunicator& c) {
    Status s;
    int x = 1;
    while (s.ok()) {
      s = c.all_reduce(DeviceSpan(&x, 1));
      if (shared.at == 0) shared.reach(1);
    }
    auto three = c.shrink({0});
    if (!three.ok() || sum(*three) != 3) return 1;
    if (three->rank() == 0) raise(SIGKILL);
    s = three->barrier();
    if (s.code() != StatusCode::peer_lost || !says(s, "rank 0 (world rank 1) ")) return 2;
    auto two = three->shrink({0});
    return two.ok() && sum(*two) == 2 ? kGood : 3;
  });
  shared.wait(1);
  world.kill_rank(0);
  CHECK(world.wait_for(0) == -SIGKILL);
  CHECK(world.wait_for(1) == -SIGKILL);
  CHECK(world.wait_for(2) == kGood);
  CHECK(world.wait_for(3) == kGood);
}

TEST_CASE("refusing a submission after a failure takes microseconds, not system calls") {
  as_threads(2, [](HostCommunicator& c, Failures& failures) {
    c.abort().ignore();
    int x = 1;
    std::vector<double> took;
    for (int i = 0; i < 2000; ++i) {
      const auto began = std::chrono::steady_clock::now();
      const Status s = c.all_reduce(DeviceSpan(&x, 1));
      took.push_back(
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began)
              .count());
      if (s.ok()) failures.add("not refused");
    }
    std::nth_element(took.begin(), took.begin() + 1000, took.end());
    if (c.rank() == 0) MESSAGE("refused in ", took[1000], " us (median)");
  });
}
