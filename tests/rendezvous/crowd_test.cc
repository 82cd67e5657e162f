#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/rendezvous/support.h"

using namespace comm;
using namespace comm::test;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

using Clock = std::chrono::steady_clock;

// The shortest of some formations of eight ranks: what it takes when nothing else disturbs.
milliseconds time_to_form(const std::function<void(const Job&)>& beside) {
  milliseconds best = seconds(1000);
  for (int round = 0; round < 5; ++round) {
    Job job(8);
    job.base.launch.handshake_timeout = seconds(30);
    beside(job);
    const auto began = Clock::now();
    std::atomic<int> joined{0};
    job.run([&](int rank) {
      const auto channel = OutOfBand::join(job.config(rank));
      joined += channel.ok() && (*channel)->barrier(seconds(30)).ok() ? 1 : 0;
    });
    CHECK(joined == 8);
    best = std::min(best, std::chrono::duration_cast<milliseconds>(Clock::now() - began));
  }
  return best;
}

}  // namespace

TEST_CASE("crowd: 1,000 hostile clients at once cost eight ranks less than 100 ms") {
  const Watchdog watchdog("crowd", seconds(240));
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 16384);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  REQUIRE_MESSAGE(limit.rlim_cur >= 4096, "this test needs 4,096 descriptors");

  const milliseconds alone = time_to_form([](const Job&) {});
  std::vector<std::unique_ptr<Stranger>> strangers;
  const milliseconds beside = time_to_form([&](const Job& job) {
    strangers.clear();
    for (int i = 0; i < 1000; ++i) {
      strangers.push_back(std::make_unique<Stranger>(job.port()));
      Stranger& stranger = *strangers.back();
      REQUIRE(stranger.connected());
      switch (i % 5) {
        case 0: break;  // Silent.
        case 1: stranger.say("GET / HTTP/1.1\r\n"); break;
        case 2: stranger.say(std::string(2000, '\xff')); break;
        case 3: stranger.say("comm/rdv\xff\xff\xff\xff\x02"); break;
        case 4:
          stranger.say("comm/r");
          if (i % 2 == 0) stranger.reset();
          break;
      }
    }
  });
  MESSAGE("alone ", alone.count(), " ms, beside 1,000 strangers ", beside.count(), " ms");
  CHECK(beside - alone < milliseconds(100));
}

TEST_CASE("crowd: where descriptors run out, strangers go first and the ranks still meet") {
  const Watchdog watchdog("few descriptors", seconds(120));
  Job job(4);
  job.base.launch.handshake_timeout = seconds(60);
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int i = 0; i < 300; ++i) strangers.push_back(std::make_unique<Stranger>(job.port()));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit tight = before;
  tight.rlim_cur = open_descriptors() + 40;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &tight) == 0);
  std::atomic<int> joined{0};
  job.run([&](int rank) {
    const auto channel = OutOfBand::join(job.config(rank));
    if (!channel.ok()) MESSAGE(std::string(channel.message()));
    joined += channel.ok() && (*channel)->barrier(seconds(30)).ok() ? 1 : 0;
  });
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(joined == 4);
}
