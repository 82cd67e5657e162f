#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <barrier>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "comm/testing/simulated/calls.h"
#include "tests/nccl/world.h"

namespace {

using comm::Communicator;
using comm::Nccl;
using comm::NcclConfig;
using comm::NcclMode;
using comm::StatusCode;
using comm::simulated::FaultAction;
using comm::testing::DeviceBuffer;
using comm::testing::has;
using comm::testing::NoReports;
using comm::testing::on_ranks;
using comm::testing::run_nccl;
using comm::testing::said;
using comm::testing::short_waits;
using std::chrono::milliseconds;

}  // namespace

TEST_CASE("traps 15, 36: a call that stays inside NCCL is aborted when it is overdue") {
  const NoReports none;
  run_nccl(2, short_waits, [](Communicator<Nccl>& c) {
    DeviceBuffer<int> buffer(std::vector<int>(1000, 1));
    if (c.rank() == 0)
      comm::simulated::inject(
          {.call = "ncclAllReduce", .nth = 1, .rank = 0, .action = FaultAction::block});
    CHECK(said(c.barrier_wait(milliseconds(20'000))) != "ok");
    CHECK_FALSE(c.is_healthy());
    const std::string refused = said(c.all_reduce(buffer.span()));
    CHECK(has(refused, "unhealthy: "));
    CHECK(has(refused, "First cause"));
  });
}

TEST_CASE("fault 7: initialisation that does not end is given up by all, with one abort") {
  for (const NcclMode mode : {NcclMode::blocking, NcclMode::non_blocking}) {
    const NoReports none;
    comm::simulated::inject({.call = "ncclCommInitRankConfig",
                             .nth = 1,
                             .rank = 1,
                             .action = FaultAction::never_finish});
    on_ranks(2, [&](int, NcclConfig config) {
      config.mode = mode;
      config.launch->init_timeout = milliseconds(1500);
      auto made = Communicator<Nccl>::create(config);
      CHECK_FALSE(made.ok());
    });
  }
}

TEST_CASE("fault 31: a rank that cannot initialise tells the others why") {
  const NoReports none;
  comm::simulated::inject({.call = "ncclCommInitRankConfig",
                           .nth = 1,
                           .rank = 1,
                           .action = FaultAction::fail,
                           .value = ncclSystemError});
  on_ranks(3, [&](int, NcclConfig config) {
    const auto began = std::chrono::steady_clock::now();
    auto made = Communicator<Nccl>::create(config);
    CHECK_MESSAGE(has(said(made), "ncclSystemError"), said(made));
    // At once, which takes milliseconds: a third of the time they would have had.
    CHECK(std::chrono::steady_clock::now() - began < config.launch->init_timeout / 3);
  });
}

TEST_CASE("trap 36: an asynchronous error is found by the next submission and refused for good") {
  const NoReports none;
  run_nccl(2, short_waits, [](Communicator<Nccl>& c) {
    DeviceBuffer<int> buffer(std::vector<int>(1000, 1));
    if (c.rank() == 1)
      comm::simulated::inject({.call = "ncclAllReduce",
                               .nth = 1,
                               .rank = 1,
                               .action = FaultAction::async_error,
                               .value = ncclRemoteError});
    comm::Status s = c.all_reduce(buffer.span());
    if (s.ok()) s = c.synchronize();
    CHECK_FALSE(s.ok());
    CHECK(c.all_reduce(buffer.span()).code() == StatusCode::unhealthy);
    // Before its buffer is freed the operation has to be out of the way.
    CHECK(said(c.abort()) == "ok");
    CHECK(cudaStreamSynchronize(c.backend().stream()) == cudaSuccess);
  });
}

TEST_CASE("trap 21, fault 11: two ranks on one GPU are refused before NCCL is asked, naming both") {
  const NoReports none;
  on_ranks(2, [&](int, NcclConfig config) {
    config.device = 0;
    const std::string refused = said(Communicator<Nccl>::create(config));
    CHECK(has(refused, "ranks 0 and 1"));
  });
}

TEST_CASE("without a GPU there is one clear error") {
  const NoReports none;
  const comm::simulated::Settings before = comm::simulated::settings();
  comm::simulated::Settings nothing = before;
  nothing.devices = 0;
  comm::simulated::set_settings(nothing);
  NcclConfig config;
  config.launch = comm::LaunchConfig();
  CHECK(has(said(Communicator<Nccl>::create(config)), "no GPU"));
  comm::simulated::set_settings(before);
}

TEST_CASE("trap 2, fault 50: groups close on their thread, and nothing is made inside one") {
  const NoReports none;
  run_nccl(2, [](Communicator<Nccl>& c) {
    CHECK(c.group_end().code() == StatusCode::invalid_argument);
    DeviceBuffer<int> buffer(std::vector<int>(1000, 1));
    {
      auto group = c.group();
      NcclConfig config;
      config.launch = comm::LaunchConfig();
      CHECK(has(said(Communicator<Nccl>::create(config)), "group open"));
      CHECK(has(said(c.broadcast(buffer.span(), 0)), "group"));
      CHECK(said(c.all_reduce(buffer.span())) == "ok");
      std::thread other([&] { CHECK(c.group_end().code() == StatusCode::invalid_argument); });
      other.join();
      CHECK(said(group.end()) == "ok");
    }
    CHECK(said(c.synchronize()) == "ok");
    CHECK(buffer.read() == std::vector<int>(1000, 2));
  });
}

TEST_CASE("fault 21: two threads that abort at once are both answered, by one abort of NCCL's") {
  const NoReports none;
  std::barrier both(2);
  run_nccl(2, short_waits, [&](Communicator<Nccl>& c) {
    CHECK(said(c.barrier_wait()) == "ok");
    both.arrive_and_wait();
    if (c.rank() == 0) comm::simulated::clear_calls();
    both.arrive_and_wait();
    std::thread other([&] { CHECK(said(c.abort()) == "ok"); });
    CHECK(said(c.abort()) == "ok");
    other.join();
    CHECK_FALSE(c.is_healthy());
  });
  CHECK(comm::simulated::calls("ncclCommAbort") == 2);  // One for each rank.
}

TEST_CASE("trap 12, fault 23: closing with a live graph is bounded, and the message says why") {
  run_nccl(2, short_waits, [](Communicator<Nccl>& c) {
    DeviceBuffer<float> buffer(std::vector<float>(10, 1.0F));
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    CHECK(said(c.all_reduce(buffer.span(), comm::ReduceOp::max, stream)) == "ok");
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    CHECK(has(said(c.backend().close()), "graphs"));
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  });
  (void)comm::simulated::take_reports();
}

TEST_CASE("trap 30, fault 51: calls from several threads on one communicator are serialised") {
  const NoReports none;
  run_nccl(1, [](Communicator<Nccl>& c) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&c] {
        DeviceBuffer<int> buffer(std::vector<int>(100, 1));
        for (int i = 0; i < 50; ++i) CHECK(said(c.all_reduce(buffer.span())) == "ok");
        CHECK(said(c.synchronize()) == "ok");
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

TEST_CASE("fault 6: each epoch has a fresh unique id, and registered buffers come along") {
  const NoReports none;
  std::barrier all_ranks(3);  // An abort would otherwise meet a rank that still waits.
  run_nccl(3, [&](Communicator<Nccl>& c) {
    DeviceBuffer<float> buffer(std::vector<float>(5000, 1.0F));
    auto handle = c.register_buffer(buffer.span());
    CHECK(said(handle) == "ok");
    for (int i = 0; i < 2; ++i) {
      all_ranks.arrive_and_wait();
      if (c.rank() == 0) CHECK(said(c.abort()) == "ok");
      while (c.is_healthy()) std::this_thread::yield();
      CHECK(said(c.attempt_reconnect()) == "ok");
      CHECK(c.epoch() == static_cast<std::uint64_t>(i) + 1);
      CHECK(said(c.all_reduce(buffer.span())) == "ok");
      CHECK(said(c.synchronize()) == "ok");
    }
    CHECK(buffer.read() == std::vector<float>(5000, 9.0F));
    if (handle.ok()) CHECK(said(c.deregister_buffer(*handle)) == "ok");
  });
}
