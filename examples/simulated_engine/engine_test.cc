// The engine's own test, on simulated GPUs: many schedules, a forgotten event, and faults.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "examples/simulated_engine/engine.h"

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <thread>

#include "comm/testing/simulated/faults.h"
#include "comm/testing/simulated/report.h"
#include "comm/testing/simulated/settings.h"
#include "comm/testing/watchdog.h"

namespace simulated = comm::simulated;

namespace {

constexpr int kSize = 3;
constexpr std::size_t kWidth = 100;

// Runs `body` on each rank, a thread with a device of its own.
void on_all_ranks(const std::function<void(int rank, engine::Rank&)>& body) {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kSize; ++rank) {
    threads.emplace_back([&, rank] {
      engine::Rank engine(rank, kSize, rank, id, kWidth);
      CHECK(engine.ok());
      body(rank, engine);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Whether every rank got the sum of all ranks' inputs, two steps long.
bool adds_up(engine::Ordering ordering) {
  bool right[kSize] = {};
  on_all_ranks([&](int rank, engine::Rank& engine) {
    bool all = true;
    for (int i = 0; i < 2; ++i) {
      const std::vector<float> mine(kWidth, static_cast<float>(rank + i));
      const std::vector<float> sum = engine.step(mine, ordering);
      all = all && sum == std::vector<float>(kWidth, static_cast<float>(3 + 3 * i));
    }
    right[rank] = all;
  });
  return right[0] && right[1] && right[2];
}

}  // namespace

TEST_CASE("right under every schedule, and nothing is reported") {
  comm::testing::Watchdog watchdog("schedules");
  for (unsigned seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    simulated::set_seed(seed);
    CHECK(adds_up(engine::Ordering::event));
  }
  CHECK(simulated::take_reports().empty());
  CHECK(simulated::report_leaks() == 0);
}

TEST_CASE("a forgotten event is found") {
  comm::testing::Watchdog watchdog("forgotten event");
  int wrong = 0;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    simulated::set_seed(seed);
    if (!adds_up(engine::Ordering::forgotten)) ++wrong;
    CHECK_FALSE(simulated::take_reports().empty());  // Every time,
  }
  CHECK(wrong > 0);  // and some schedules give wrong answers.
}

TEST_CASE("a call that fails ends the step on that rank, and the rank can be given back") {
  comm::testing::Watchdog watchdog("failing call");
  simulated::inject({.call = "cudaEventRecord",
                     .rank = 1,
                     .action = simulated::FaultAction::fail,
                     .value = cudaErrorMemoryAllocation});
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  engine::Rank alone(0, 1, 1, id, kWidth);
  REQUIRE(alone.ok());
  CHECK(alone.step(std::vector<float>(kWidth, 1.0F), engine::Ordering::event).empty());
  CHECK_FALSE(alone.ok());
  cudaGetLastError();
}
