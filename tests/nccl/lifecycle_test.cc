#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "comm/float_types.h"
#include "comm/testing/simulated/kernel.h"
#include "tests/nccl/world.h"

namespace {

using comm::bf16;
using comm::Communicator;
using comm::Nccl;
using comm::NcclConfig;
using comm::simulated::FaultAction;
using comm::testing::DeviceBuffer;
using comm::testing::has;
using comm::testing::NoReports;
using comm::testing::run_nccl;
using comm::testing::said;
using std::chrono::milliseconds;

/// What an engine has: a sum that can be told from comm's.
void engine_add(const comm::simulated::Launch&, bf16* accumulator, const bf16* addend, int count) {
  for (int i = 0; i < count; ++i)
    accumulator[i] = bf16(static_cast<float>(accumulator[i]) + static_cast<float>(addend[i]) + 1);
}

}  // namespace

TEST_CASE("fault 24: destroyed after the driver is gone, it calls neither CUDA nor NCCL") {
  const NoReports none;
  std::barrier all_ranks(2);
  run_nccl(2, [&](Communicator<Nccl>& c) {
    CHECK(said(c.barrier_wait()) == "ok");
    all_ranks.arrive_and_wait();
    if (c.rank() == 0) comm::simulated::unload_driver();
    all_ranks.arrive_and_wait();
  });
}

TEST_CASE("trap 14: a finalize that does not return is given up, and the communicator aborted") {
  const NoReports none;
  run_nccl(
      2, [](NcclConfig& config) { config.close_timeout = milliseconds(300); },
      [](Communicator<Nccl>& c) {
        CHECK(said(c.barrier_wait()) == "ok");
        if (c.rank() == 1)
          comm::simulated::inject(
              {.call = "ncclCommFinalize", .nth = 1, .rank = 1, .action = FaultAction::block});
        const std::string closed = said(c.backend().close());
        if (c.rank() == 1) CHECK(has(closed, "aborted"));
        CHECK(has(said(c.barrier()), "closed"));
        CHECK(said(c.backend().close()) == "ok");
      });
}

TEST_CASE("fault 25: a communicator that was moved, also onto itself, is destroyed once") {
  const NoReports none;
  run_nccl(2, [](Communicator<Nccl>& c) {
    Communicator<Nccl> moved = std::move(c);
    Communicator<Nccl>& same = moved;
    moved = std::move(same);
    CHECK(said(moved.barrier_wait()) == "ok");
    c = std::move(moved);
    CHECK(said(c.barrier_wait()) == "ok");
  });
}

TEST_CASE("Config: the greatest times that there are mean as long as it takes") {
  const NoReports none;
  std::atomic<int> complaints{0};
  run_nccl(
      2,
      [&](NcclConfig& config) {
        config.collective_timeout = config.reconnect_timeout = milliseconds::max();
        config.close_timeout = config.abort_timeout = config.slow_wait = milliseconds::max();
        config.waiting.spin = config.waiting.yield = std::chrono::microseconds::max();
        config.waiting.longest_sleep = std::chrono::microseconds::max();
        config.log = [&](std::string_view) { ++complaints; };
        config.log_levels = *comm::LogLevels::parse("nccl=warn");
      },
      [](Communicator<Nccl>& c) {
        CHECK(said(c.barrier_wait()) == "ok");
        // For longer than two looks of the other rank's watchdog.
        const auto begin = std::chrono::steady_clock::now();
        while (c.rank() == 1 && std::chrono::steady_clock::now() - begin < milliseconds(300))
          std::this_thread::yield();
        CHECK(said(c.barrier_wait()) == "ok");
        CHECK(said(c.backend().close()) == "ok");
      });
  CHECK(complaints == 0);
}

TEST_CASE("a slow wait is said after rank 0 has left, too") {
  const NoReports none;
  std::atomic<int> complaints{0};
  run_nccl(
      3,
      [&](NcclConfig& config) {
        config.slow_wait = milliseconds(100);
        config.log_levels = *comm::LogLevels::parse("nccl=warn");
        config.log = [&](std::string_view line) {
          if (has(std::string(line), "is not complete after")) ++complaints;
        };
      },
      [&](Communicator<Nccl>& c) {
        DeviceBuffer<int> one({c.rank()});
        const auto pass_on = [&] {
          if (c.rank() == 1) CHECK(said(c.recv_from(one.span(), 2)) == "ok");
          if (c.rank() == 2) CHECK(said(c.send_to(one.span(), 1)) == "ok");
        };
        pass_on();  // The first time NCCL connects, and waits in that.
        CHECK(said(c.barrier_wait()) == "ok");
        if (c.rank() == 0) return;
        while (c.rank() == 2 && complaints == 0) std::this_thread::yield();
        pass_on();
        CHECK(said(c.synchronize()) == "ok");
      });
}

TEST_CASE("set_add_kernel: the engine's kernel adds for bf16 on two ranks, in and out of place") {
  const NoReports none;
  comm::simulated::register_kernel("engine_add", engine_add);
  auto* kernel = static_cast<CUfunc_st*>(comm::simulated::kernel_handle("engine_add"));
  run_nccl(2, [&](Communicator<Nccl>& c) {
    CHECK(said(c.set_add_kernel(kernel)) == "ok");
    DeviceBuffer<bf16> a(std::vector<bf16>(1001, bf16(2)));
    DeviceBuffer<bf16> out(std::vector<bf16>(1001, bf16(0)));
    CHECK(said(c.all_reduce(a.span(), out.span())) == "ok");
    CHECK(said(c.all_reduce(a.span())) == "ok");
    CHECK(said(c.set_add_kernel(nullptr)) == "ok");
    CHECK(said(c.all_reduce(a.span())) == "ok");
    CHECK(said(c.synchronize()) == "ok");
    CHECK(static_cast<float>(out.read()[1000]) == 5.0F);
    CHECK(static_cast<float>(a.read()[1000]) == 10.0F);
  });
}

TEST_CASE("trap 16, 18: a split leaves parent and child independent of each other") {
  const NoReports none;
  run_nccl(4, [](Communicator<Nccl>& c) {
    {
      auto half = c.split(c.rank() / 2, 0);
      CHECK(said(half) == "ok");
      if (!half.ok()) return;
      DeviceBuffer<int> one({1});
      CHECK(said(half->all_reduce(one.span())) == "ok");
      CHECK(said(half->synchronize()) == "ok");
      CHECK(one.read()[0] == 2);
      CHECK(half->attempt_reconnect().code() == comm::StatusCode::unsupported);
    }
    DeviceBuffer<int> one({1});
    CHECK(said(c.all_reduce(one.span())) == "ok");
    CHECK(said(c.synchronize()) == "ok");
    CHECK(one.read()[0] == 4);
  });
}
