// What a job of Host says of its life, who says it, and what no line may have.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cstdlib>
#include <latch>
#include <mutex>
#include <string>
#include <vector>

#include "comm/backends/host.h"
#include "comm/decorators/checked.h"
#include "comm/decorators/logged.h"
#include "comm/testing/expect.h"
#include "comm/testing/run_ranks.h"

using comm::Communicator, comm::DeviceSpan, comm::Host, comm::LogLevel, comm::LogLevels;
using comm::testing::expect, comm::testing::expect_ok;
using std::chrono::milliseconds;

namespace {

using C = Communicator<comm::Checked<comm::Logged<Host>>>;

constexpr const char* kSecret = "correct horse battery staple";

/// The lines of a job, by whichever rank.
class Job {
 public:
  explicit Job(LogLevel level) : levels_(level) {}

  template <class Body>
  void run(int ranks, Body body, milliseconds timeout, milliseconds slow = milliseconds(10'000)) {
    auto configure = [&](comm::LaunchConfig launch) {
      Host::Config config;
      launch.secret = kSecret;
      config.launch = std::move(launch);
      config.collective_timeout = timeout;
      config.slow_wait = slow;
      config.log_levels = levels_;
      config.log = [this](std::string_view line) {
        const std::lock_guard lock(mutex_);
        lines_.emplace_back(line);
      };
      return config;
    };
    comm::testing::run_ranks<C::BackendType>(ranks, configure, body);
  }

  int count(const std::string& part) const {
    int found = 0;
    for (const std::string& line : lines_)
      if (line.find(part) != std::string::npos) ++found;
    return found;
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  LogLevels levels_;
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

/// A mismatch on two ranks, and the way back.
void fail_and_return(C& c) {
  float x = 1;
  expect_ok(c.all_reduce(DeviceSpan<float>(&x, 1)));
  expect(!c.all_reduce(DeviceSpan<float>(&x, c.rank() == 0 ? 1 : 0)).ok());
  expect_ok(c.attempt_reconnect());
  expect_ok(c.barrier_wait());
}

}  // namespace

TEST_CASE("logging: a life is told at info, each line with rank, world and epoch") {
  Job job(LogLevel::info);
  job.run(2, fail_and_return, milliseconds(60'000));
  CHECK(job.count("epoch=0 host info: made: process ") == 2);
  CHECK(job.count("epoch=0 host error: unhealthy: all_reduce on rank ") == 2);
  CHECK(job.count("host warn: reconnects") == 2);
  CHECK(job.count("epoch=1 host warn: reconnected") == 2);
  CHECK(job.count("comm: rank=1 world=2 epoch=") >= 4);
  CHECK(job.count("op=") == 0);
  for (const std::string& line : job.lines()) CHECK(line.starts_with("comm: rank="));
}

TEST_CASE("logging: the default says failures, and nothing of a life that goes well") {
  Job well(LogLevel::warn), ill(LogLevel::warn), silent(LogLevel::off);
  well.run(
      2, [](C& c) { expect_ok(c.barrier_wait()); }, milliseconds(60'000));
  CHECK(well.lines().empty());
  ill.run(2, fail_and_return, milliseconds(60'000));
  CHECK(ill.count("host error: unhealthy") == 2);
  CHECK(ill.count("info") == 0);
  silent.run(2, fail_and_return, milliseconds(60'000));
  CHECK(silent.lines().empty());
}

TEST_CASE("logging: at trace all is said but the secret") {
  Job job(LogLevel::trace);
  job.run(
      3, [](C& c) { fail_and_return(c); }, milliseconds(60'000));
  CHECK(job.count("op=all_reduce type=f32 count=1") == 3);
  CHECK(job.count(kSecret) == 0);
  CHECK(job.count("battery") == 0);
}

TEST_CASE("logging: a slow wait is said, with the operation and who is missing") {
  Job job(LogLevel::warn);
  std::latch said(2);
  job.run(
      2,
      [&](C& c) {
        // Late until the other one must have said so: it gives up only after ten times as long.
        if (c.rank() == 1) return said.arrive_and_wait();
        expect(!c.barrier().ok());
        said.arrive_and_wait();
      },
      milliseconds(500), milliseconds(50));
  CHECK(job.count("rank=0 world=2 epoch=0 host warn: barrier waited 0.") >= 1);
  CHECK(job.count("for rank 1 (last seen in ") >= 2);
}

TEST_CASE("logging: a malformed COMM_LOG is said once a communicator, and counts as none") {
  ::setenv("COMM_LOG", "info,hots=debug", 1);
  std::vector<std::string> lines;
  Host::Config config;
  config.launch = comm::LaunchConfig::local(0, 1, 1);
  config.log = [&](std::string_view line) { lines.emplace_back(line); };
  auto made = C::create(config);
  ::unsetenv("COMM_LOG");
  expect_ok(made);
  REQUIRE(lines.size() == 1);
  comm::testing::expect_part(lines[0], "comm: COMM_LOG: cannot read 'hots=debug'");
}
