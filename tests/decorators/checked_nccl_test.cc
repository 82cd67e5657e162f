// Checked over Nccl, on simulated GPUs: the same differences, named over the rendezvous' channel.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <latch>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "comm/decorators/checked.h"
#include "comm/testing/expect.h"
#include "tests/decorators/mismatches.h"
#include "tests/nccl/world.h"

using comm::Checked, comm::Communicator, comm::DeviceSpan, comm::Nccl, comm::NcclConfig;
using comm::StatusCode;
using comm::testing::DeviceBuffer, comm::testing::NoReports;
using comm::testing::expect, comm::testing::expect_ok, comm::testing::expect_part;

namespace {

using C = Communicator<Checked<Nccl>>;

template <class Body>
void run(int ranks, Body body, std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  comm::testing::on_ranks(ranks, [&](int, NcclConfig config) {
    config.collective_timeout = timeout;
    config.receive_buffer_bytes = 0;
    config.one_shot_bytes = 0;
    auto made = C::create(config);
    expect_ok(made);
    if (made.ok()) body(*made);
  });
}

std::string sides(const std::string& message) {
  const std::size_t at = message.find("ranks make different calls");
  return at == std::string::npos ? "not a mismatch: " + message : message.substr(at);
}

}  // namespace

// First, before the simulation has threads that a fork would lose.
TEST_CASE("checked: between processes, too") {
  const auto all = tests::mismatches<C>();
  constexpr int kRanks = 2;
  auto listener = comm::Listener::bind("127.0.0.1", 0);
  REQUIRE(listener.ok());
  pid_t pids[kRanks];
  for (int rank = 0; rank < kRanks; ++rank) {
    pids[rank] = ::fork();
    REQUIRE(pids[rank] >= 0);
    if (pids[rank] != 0) continue;
    ::alarm(60);
    int missing = 100;
    {
      (void)cudaSetDevice(rank);
      comm::LaunchConfig launch = comm::LaunchConfig::local(rank, kRanks, (*listener)->port());
      if (rank == 0) launch.listener = *listener;
      auto c = C::create(comm::testing::test_config(std::move(launch)));
      if (c.ok()) {
        DeviceBuffer<float> memory(std::vector<float>(1024, 1.0f));
        comm::Status s = all[2].call(*c, memory.span().data(), rank == 1);
        missing = s.code() == StatusCode::mismatch ? 0 : 50;
        for (const char* side : all[2].sides)
          missing += std::string(s.message()).find(side) == std::string::npos ? 1 : 0;
      }
    }
    ::_exit(missing);
  }
  for (const pid_t pid : pids) {
    int status = 0;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    CHECK(status == 0);
  }
}

TEST_CASE("checked: every difference is named on every rank with both sides, and nothing is done") {
  for (const int ranks : {2, 4}) {
    for (const auto& mismatch : tests::mismatches<C>()) {
      const NoReports none;  // The simulation would report what NCCL hangs in.
      std::mutex mutex;
      std::set<std::string> said;
      // Outlives registrations, which end with the communicator.
      std::vector<std::unique_ptr<DeviceBuffer<float>>> memories(4);
      run(ranks, [&](C& c) {
        INFO(std::string(mismatch.name), ", rank ", c.rank(), " of ", ranks);
        auto& memory = memories[static_cast<std::size_t>(c.rank())];
        memory = std::make_unique<DeviceBuffer<float>>(std::vector<float>(1024, 1.0f));
        expect_ok(c.barrier_wait());
        comm::Status s = mismatch.call(c, memory->span().data(), c.rank() == 1);
        comm::testing::expect_code(s, StatusCode::mismatch);
        for (const char* side : mismatch.sides) expect_part(s.message(), side);
        expect(!c.is_healthy());
        comm::Status refused = c.barrier();
        comm::testing::expect_code(refused, StatusCode::unhealthy);
        expect_part(refused.message(), sides(s.message()));
        expect(memory->read() == std::vector<float>(1024, 1.0f));
        const std::lock_guard lock(mutex);
        said.insert(sides(s.message()));
      });
      CHECK_MESSAGE(said.size() == 1, mismatch.name);
    }
  }
}

TEST_CASE("checked: a rank that does not come is named with those that did") {
  const NoReports none;
  std::latch others(3);
  run(
      4,
      [&](C& c) {
        DeviceBuffer<float> x({1});
        expect_ok(c.barrier());
        if (c.rank() == 2) return others.wait();
        comm::Status s = c.all_reduce(x.span());
        comm::testing::expect_code(s, StatusCode::timeout);
        expect_part(s.message(),
                    "before seq 2, all_reduce(f32, 1 elements, sum): exchange on rank ");
        expect_part(s.message(), "rank 2 did not arrive in time; ranks 0, 1, 3 did");
        expect(!c.is_healthy());
        others.count_down();
      },
      std::chrono::milliseconds(500));
}

TEST_CASE("checked: parts are compared by themselves, in their own order, and after a reconnect") {
  const NoReports none;
  run(4, [](C& c) {
    DeviceBuffer<float> x({1, 1});
    {
      auto half = c.split(c.rank() % 2, -c.rank());
      expect_ok(half);
      if (!half.ok()) return;
      for (int i = 0; i < 1 + 3 * (c.rank() % 2); ++i) expect_ok(half->all_reduce(x.span()));
      auto again = half->split(0, 0);
      expect_ok(again);
      if (again.ok()) expect_ok(again->barrier_wait());
    }
    auto none_or_three = c.split(c.rank() == 0 ? comm::kNoColor : 0, 0);
    expect_ok(none_or_three);
    if (none_or_three.ok() && c.rank() != 0) expect_ok(none_or_three->barrier_wait());
    expect_ok(c.barrier_wait());
    if (c.rank() != 3) {
      auto rest = c.shrink({3});
      expect_ok(rest);
      if (rest.ok()) expect_ok(rest->barrier_wait());
    }
    expect_ok(c.barrier_wait());
    comm::Status s = c.all_reduce(x.span().first(c.rank() == 3 ? 1 : 2));
    expect(s.code() == StatusCode::mismatch);
    expect_part(s.message(), "ranks 0, 1, 2: all_reduce(f32, 2 elements, sum); rank 3: all_reduce");
    expect_ok(c.attempt_reconnect());
    expect_ok(c.all_reduce(x.span()));
    auto half = c.split(c.rank() % 2, 0);
    expect_ok(half);
    if (half.ok()) expect_ok(half->barrier_wait());
    s = c.all_reduce(x.span().first(c.rank() == 3 ? 1 : 2));
    expect_part(s.message(), "at seq 3: ");
  });
}

TEST_CASE("checked: a capture is compared where it is made; its graph is not when it runs") {
  const NoReports none;
  run(2, [](C& c) {
    cudaStream_t stream = nullptr;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    DeviceBuffer<float> x({1, 2});
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    expect_ok(c.all_reduce(x.span(), comm::ReduceOp::sum, stream));
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    CHECK(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
    for (int i = 0; i < 2; ++i) CHECK(cudaGraphLaunch(executable, stream) == cudaSuccess);
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(x.read() == std::vector<float>{4, 8});
    CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
    expect_ok(c.barrier_wait());
  });
}
