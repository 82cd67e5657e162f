// Faulty: each fault does what it says, when it says, and comes again from its seed.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "comm/decorators/faulty.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <latch>
#include <mutex>
#include <string>
#include <vector>

#include "comm/backends/host.h"
#include "comm/backends/single_gpu.h"
#include "comm/decorators/checked.h"
#include "comm/testing/expect.h"
#include "comm/testing/run_ranks.h"
#include "tests/core/recording_backend.h"

using comm::DeviceSpan, comm::Fault, comm::FaultAction, comm::FaultPlan, comm::Faulty, comm::Host;
using comm::Operation, comm::StatusCode;
using comm::testing::expect, comm::testing::expect_code, comm::testing::expect_ok;
using comm::testing::expect_part;
using tests::RecordingBackend;

namespace {

static_assert(comm::Backend<Faulty<RecordingBackend>> && comm::Creatable<Faulty<Host>>);
static_assert(std::is_empty_v<Faulty<comm::SingleGpu>> && comm::HasAgreement<Faulty<Host>>);

struct Fixture {
  tests::Recording recording;
  float memory[8] = {};

  comm::Communicator<Faulty<RecordingBackend>> make(const char* plan, int rank = 1) {
    return comm::Communicator(Faulty(std::move(*RecordingBackend::create({rank, 4, &recording})),
                                     *FaultPlan::parse(plan)));
  }
  DeviceSpan<float> span() { return {memory, 8}; }
};

/// Runs `body` over Faulty<Host> with the plan.
template <class B = Faulty<Host>, class Body>
std::vector<std::string> run(int ranks, const char* plan, Body body,
                             std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  ::setenv("COMM_FAULTS", plan, 1);
  std::mutex mutex;
  std::vector<std::string> lines;
  auto configure = [&](comm::LaunchConfig launch) {
    Host::Config config;
    config.launch = std::move(launch);
    config.collective_timeout = timeout;
    config.log = [&](std::string_view line) {
      const std::lock_guard lock(mutex);
      lines.emplace_back(line);
    };
    return config;
  };
  comm::testing::run_ranks<B>(ranks, configure, body);
  ::unsetenv("COMM_FAULTS");
  return lines;
}

bool has(const std::vector<std::string>& lines, const char* part) {
  for (const std::string& line : lines)
    if (line.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "faulty: fails the nth call of the operation, once, on the rank named") {
  auto c = make("all_reduce@2,rank=1:fail=peer_lost;barrier@0:fail;all_gather,rank=3:fail");
  expect_ok(c.all_reduce(span()));
  const comm::Status s = c.all_reduce(span());
  CHECK(s.code() == StatusCode::peer_lost);
  expect_part(s.message(),
              "all_reduce on rank 1 of 4: a fault that Faulty was told to make (fail)");
  expect_ok(c.all_reduce(span()));
  for (int i = 0; i < 3; ++i) CHECK(c.barrier().code() == StatusCode::internal);
  expect_ok(c.all_gather(span().subspan(2, 2), span()));
  CHECK(recording.seen.size() == 3);
  // What is split off counts for itself.
  auto half = c.split(0, 1);
  expect_ok(half);
  expect_ok(half->all_reduce(span()));
  CHECK(half->all_reduce(span()).code() == StatusCode::peer_lost);
}

TEST_CASE_FIXTURE(Fixture, "faulty: a skipped call answers ok and reaches nobody") {
  auto c = make("any@1:skip");
  expect_ok(c.all_reduce(span()));
  CHECK(recording.seen.empty());
  expect_ok(c.all_reduce(span()));
  CHECK(recording.seen.size() == 1);
  // A call that has a value cannot be left out.
  CHECK_FALSE(make("symmetric_alloc:skip").symmetric_alloc(8).ok());
}

TEST_CASE_FIXTURE(Fixture, "faulty: flips only what the host may write, and says so") {
  auto c = make("all_reduce:flip");
  const comm::Status s = c.barrier();
  CHECK(s.code() == StatusCode::invalid_argument);
  expect_part(s.message(), "needs memory that the host can write");
}

TEST_CASE("faulty: a malformed plan is one clear error, before anything is made") {
  for (const char* text :
       {"all_reduce", "all_reduce:", "all_reduce:explode", "all_reduec:fail", "all_reduce@x:fail",
        "all_reduce@-1:fail", "all_reduce,rank=x:fail", "all_reduce,node=1:fail", "barrier:delay",
        "barrier:fail=sometimes", "barrier:skip=1", "random=x", "random,rate=2000",
        "barrier:fail;;bogus"}) {
    INFO(text);
    const auto plan = FaultPlan::parse(text);
    CHECK(plan.code() == StatusCode::invalid_argument);
    expect_part(plan.message(), "COMM_FAULTS: cannot read '");
  }
  ::setenv("COMM_FAULTS", "barrier:fail;bogus", 1);
  auto made = comm::Communicator<Faulty<Host>>::create({});
  CHECK(made.code() == StatusCode::invalid_argument);
  expect_part(made.message(), "'bogus'");
  tests::Recording recording;
  comm::Communicator c{Faulty(std::move(*RecordingBackend::create({0, 1, &recording})))};
  CHECK(c.barrier().code() == StatusCode::invalid_argument);
  CHECK(recording.seen.empty());
  ::unsetenv("COMM_FAULTS");
}

TEST_CASE("faulty: the same seed, rank and calls give the same faults") {
  const auto draw = [](std::uint64_t seed, int rank) {
    FaultPlan plan;
    plan.add_random(seed, 200);
    std::string drawn;
    Fault fault;
    for (int i = 0; i < 200; ++i)
      drawn += plan.take(Operation::barrier, rank, fault) ? to_string(fault.action)[0] : '.';
    return drawn;
  };
  const std::string first = draw(7, 0);
  CHECK(first == draw(7, 0));
  CHECK(first != draw(8, 0));
  CHECK(first != draw(7, 1));
  for (const char action : {'f', 'd', 's'}) CHECK(first.find(action) != std::string::npos);
  const auto lines = run(2, "random=42,rate=0", [](auto& c) { expect_ok(c.barrier_wait()); });
  CHECK_FALSE(has(lines, "faulty"));
  const auto seeded = run(1, "random=42,rate=1", [](auto& c) { c.barrier_wait().ignore(); });
  CHECK(has(seeded, "COMM_FAULTS=random=42,rate=1 brings them again"));
}

TEST_CASE("faulty: over Host, a rank that skips is named by the others; Checked around it, too") {
  const auto body = [](auto& c, std::latch& others) {
    float x = 1;
    expect_ok(c.barrier());
    comm::Status s = c.all_reduce(DeviceSpan<float>(&x, 1));
    if (c.rank() == 1) {
      expect_ok(s);
      return others.wait();
    }
    expect_code(s, StatusCode::timeout);
    expect_part(s.message(), "for rank 1");
    others.count_down();
  };
  const std::chrono::milliseconds soon(200);
  std::latch two(2), more(2);
  const auto lines = run(
      3, "all_reduce,rank=1:skip", [&](auto& c) { body(c, two); }, soon);
  CHECK(has(lines, "rank=1 world=3 epoch=0 faulty warn: all_reduce: skip"));
  run<Faulty<comm::Checked<Host>>>(
      3, "all_reduce,rank=1:skip", [&](auto& c) { body(c, more); }, soon);
}

TEST_CASE(
    "faulty: over Host, poison is a failure of all; a late rank only late; a bit only wrong") {
  run(2, "all_reduce@3,rank=0:poison;all_reduce@1:delay=20;all_reduce@2,rank=1:flip=31",
      [](auto& c) {
        float x = 1;
        const DeviceSpan<float> span(&x, 1);
        expect_ok(c.all_reduce(span));
        expect(x == 2);
        expect_ok(c.all_reduce(span));
        expect(x == (c.rank() == 1 ? -4 : 4));  // The sign.
        comm::Status s = c.all_reduce(span);
        expect_part(s.message(), "a fault that Faulty was told to make (poison)");
        expect(!c.is_healthy());
        expect_code(c.barrier(), StatusCode::unhealthy);
        expect_ok(c.attempt_reconnect());
        expect_ok(c.barrier());
      });
}
