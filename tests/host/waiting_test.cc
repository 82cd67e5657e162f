// How a rank waits: as its configuration says. Counted in looks and sleeps; no time is measured.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <thread>

#include "comm/backends/host/team.h"
#include "tests/host/ranks.h"

namespace {

using comm::HostWaitPolicy;
using comm::StatusCode;
using comm::detail::host::bit;
using comm::detail::host::Layout;
using comm::detail::host::Missing;
using comm::detail::host::prepare_barrier_everywhere;
using comm::detail::host::SharedFile;
using comm::detail::host::Team;
using comm::detail::host::Waiting;
using comm::detail::host::World;
using ranks::Failures;
using ranks::HostCommunicator;
using std::chrono::milliseconds;

constexpr std::chrono::microseconds never{0};

/// Rank 0 of a team of two, the other one of which never comes.
std::unique_ptr<Team> lonely_team(const Waiting& waiting) {
  auto world = std::make_shared<World>();
  world->size = 2;
  world->waiting = waiting;
  world->wakes_are_exact = prepare_barrier_everywhere();
  auto file = SharedFile::create();
  REQUIRE(file.ok());
  world->file = std::move(*file);
  auto place = world->file.reserve(Layout::of(2, 0).total(), "a test");
  REQUIRE(place.ok());
  auto team = Team::attach(world, {0, 1}, 0, *place);
  REQUIRE(team.ok());
  return std::move(*team);
}

/// Waits until `looks` says that it is enough; it is told whether rank 0 is about to sleep.
template <class Looks>
comm::Status wait(Team& team, Looks looks, std::int64_t timeout_ns = 60'000'000'000) {
  auto missing = [&]() -> std::uint64_t {
    const bool is_asleep = (team.lines(1).waiters.load() & bit(0)) != 0;
    return looks(is_asleep) ? 0 : bit(1);
  };
  return team.wait(Missing(missing), timeout_ns, comm::Operation::barrier);
}

/// `enough` looks end the wait, if it has not slept by then.
int looks_before_sleep(const Waiting& waiting, int enough = std::numeric_limits<int>::max()) {
  int looks = 0;
  bool sleeps = false;
  const std::unique_ptr<Team> team = lonely_team(waiting);
  const auto look = [&](bool is_asleep) {
    looks += sleeps ? 0 : 1;
    return sleeps = sleeps || is_asleep || looks >= enough;
  };
  CHECK(wait(*team, look, 5'000'000'000).ok());
  return looks;
}

int sleeps_in(milliseconds time, HostWaitPolicy policy) {
  policy.spins = policy.spins_on_shared_core = 0;
  policy.yield = never;
  int sleeps = 0;
  const std::unique_ptr<Team> team = lonely_team(Waiting(policy));
  const comm::Status s = wait(
      *team, [&](bool is_asleep) { return sleeps += is_asleep ? 1 : 0, false; },
      std::int64_t{1'000'000} * time.count());
  CHECK(s.code() == StatusCode::timeout);
  return sleeps;
}

HostWaitPolicy policy(int spins, std::chrono::microseconds yield) {
  HostWaitPolicy p;
  p.spins = spins;
  p.yield = yield;
  return p;
}

long voluntary_switches() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

}  // namespace

TEST_CASE("a wait spins as often as it is told to, and then sleeps") {
  const int least = looks_before_sleep(Waiting(policy(0, never)));
  CHECK(least <= 3);
  CHECK(looks_before_sleep(Waiting(policy(500, never))) == least + 500);
  HostWaitPolicy spins_only;
  spins_only.yield = never;
  CHECK(looks_before_sleep(Waiting(spins_only)) == least + 2000);
}

TEST_CASE("a wait yields for as long as it is told to, and then sleeps") {
  const int least = looks_before_sleep(Waiting(policy(0, never)));
  CHECK(looks_before_sleep(Waiting(policy(0, std::chrono::hours(1))), 5000) == 5000);
  CHECK(looks_before_sleep(Waiting(policy(70, std::chrono::hours(1))), 5000) == 5000);
  CHECK(looks_before_sleep(Waiting(policy(0, std::chrono::microseconds::max())), 5000) == 5000);
  CHECK(looks_before_sleep(Waiting(policy(0, milliseconds(20)))) > least);
}

TEST_CASE("a wait with more ranks than cores spins as often as it is told to for that") {
  HostWaitPolicy p = policy(5000, never);
  const int least = looks_before_sleep(Waiting(policy(0, never)));
  CHECK(looks_before_sleep(Waiting(p, 4, 2)) == least + 10);
  p.spins_on_shared_core = 40;
  CHECK(looks_before_sleep(Waiting(p, 4, 2)) == least + 40);
  CHECK(looks_before_sleep(Waiting(p, 2, 2)) == least + 5000);
}

TEST_CASE("sleeps are as long as they are told to be") {
  HostWaitPolicy few;
  few.first_sleep = few.longest_sleep = milliseconds(150);
  CHECK(sleeps_in(milliseconds(300), few) <= 3);
  HostWaitPolicy many;
  many.first_sleep = many.longest_sleep = std::chrono::microseconds(100);
  CHECK(sleeps_in(milliseconds(300), many) > 10);
}

TEST_CASE(
    "a sleep ends when another thread of the rank makes it fail, and the error is the wait's own") {
  const ranks::Watchdog watchdog("a failure from another thread");
  Waiting waiting(policy(0, never));
  waiting.first_sleep_ns = waiting.longest_sleep_ns = 3'600'000'000'000;
  const std::unique_ptr<Team> team = lonely_team(waiting);
  std::atomic<bool> sleeps{false};
  std::thread other([&] {
    while (!sleeps) std::this_thread::yield();
    const comm::Status own = team->fail(
        comm::Operation::abort, comm::make_error(StatusCode::unhealthy, 0, "enough of this"));
    CHECK(std::string(own.message()).rfind("abort on rank 0 of 2", 0) == 0);
  });
  const auto look = [&](bool is_asleep) {
    if (is_asleep) sleeps = true;
    return false;
  };
  const comm::Status waited = wait(*team, look, 2 * waiting.longest_sleep_ns);
  other.join();
  CHECK(waited.code() == StatusCode::unhealthy);
  const std::string text = waited.message();
  CHECK_MESSAGE(text.rfind("barrier on rank 0 of 2", 0) == 0, text);
  CHECK_MESSAGE(text.find(": abort on rank 0 of 2") != std::string::npos, text);
}

TEST_CASE("Config::waiting: a rank that is to spin all the time never sleeps") {
  const ranks::Watchdog watchdog("a rank that spins");
  std::atomic<bool> waits{false};
  std::atomic<clockid_t> clock{};
  ranks::as_threads(
      2,
      [&](HostCommunicator& c, Failures& failures) {
        if (c.rank() == 1) {
          clockid_t own{};
          pthread_getcpuclockid(pthread_self(), &own);
          clock = own;
          const long before = voluntary_switches();
          waits = true;
          if (!c.barrier().ok()) failures.add("barrier");
          if (voluntary_switches() != before) failures.add("slept");
          return;
        }
        // Until the other one has waited for far longer, of its own time, than it spins by default.
        while (!waits) std::this_thread::yield();
        timespec begin{};
        clock_gettime(clock.load(), &begin);
        for (timespec now = begin;
             now.tv_sec - begin.tv_sec < 1 &&
             (now.tv_sec - begin.tv_sec) * 1'000'000'000L + now.tv_nsec - begin.tv_nsec <
                 30'000'000L;)
          clock_gettime(clock.load(), &now);
        if (!c.barrier().ok()) failures.add("barrier");
      },
      [](comm::Host::Config& config) {
        config.waiting.spins = std::numeric_limits<int>::max();
        config.waiting.spins_on_shared_core = std::numeric_limits<int>::max();
      });
}

TEST_CASE("Config::waiting: what makes no sense is refused, with the reason") {
  const auto refused = [](auto change) {
    comm::Host::Config config;
    config.launch = comm::LaunchConfig{};
    change(config.waiting);
    const auto made = HostCommunicator::create(config);
    return made.code() == StatusCode::invalid_argument &&
           std::string(made.message()).find("Host::Config::waiting") != std::string::npos;
  };
  CHECK(refused([](HostWaitPolicy& p) { p.spins = -1; }));
  CHECK(refused([](HostWaitPolicy& p) { p.yield = -milliseconds(1); }));
  CHECK(refused([](HostWaitPolicy& p) { p.first_sleep = std::chrono::microseconds(0); }));
  CHECK(refused([](HostWaitPolicy& p) { p.longest_sleep = std::chrono::microseconds(1); }));
  CHECK(refused([](HostWaitPolicy& p) { p.longest_sleep = std::chrono::seconds(2); }));
  CHECK_FALSE(refused([](HostWaitPolicy& p) { p.longest_sleep = std::chrono::seconds(1); }));
}
