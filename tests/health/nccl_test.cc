// Failure and return on the Nccl backend over the simulation.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "comm/testing/simulated/calls.h"
#include "tests/health/held.h"
#include "tests/nccl/world.h"

namespace {

using comm::Communicator;
using comm::Nccl;
using comm::NcclConfig;
using comm::StatusCode;
using comm::simulated::FaultAction;
using comm::test::Held;
using comm::testing::DeviceBuffer;
using comm::testing::has;
using comm::testing::NoReports;
using comm::testing::on_ranks;
using comm::testing::run_nccl;
using comm::testing::said;
using std::chrono::milliseconds;

/// "ok" where the sum over all ranks is right.
std::string sums(Communicator<Nccl>& c) {
  DeviceBuffer<int> one({1});
  const std::string said_of_it = said(c.all_reduce(one.span()));
  if (said_of_it != "ok") return said_of_it;
  const std::string waited = said(c.synchronize());
  if (waited != "ok") return waited;
  return one.read()[0] == c.world_size() ? "ok" : "a wrong sum";
}

void short_waits(NcclConfig& config) {
  config.collective_timeout = milliseconds(400);
  config.close_timeout = milliseconds(2000);
  config.abort_timeout = milliseconds(2000);
}

}  // namespace

TEST_CASE("attempt_reconnect: a rank that knows of no failure takes part") {
  const NoReports none;
  std::barrier all(3);
  run_nccl(3, [&](Communicator<Nccl>& c) {
    CHECK(sums(c) == "ok");
    all.arrive_and_wait();
    if (c.rank() == 0) CHECK(said(c.abort()) == "ok");
    CHECK(said(c.attempt_reconnect()) == "ok");
    CHECK(c.epoch() == 1);
    CHECK(sums(c) == "ok");
    all.arrive_and_wait();
    // And while all is well: every rank asks for it.
    CHECK(said(c.attempt_reconnect()) == "ok");
    CHECK(c.epoch() == 2);
    CHECK(sums(c) == "ok");
  });
}

TEST_CASE(
    "attempt_reconnect: the thread that comes when another has repaired its failure is spared") {
  const NoReports none;
  run_nccl(2, [](Communicator<Nccl>& c) {
    CHECK(said(c.abort()) == "ok");
    std::atomic<int> step{0};
    std::thread late([&] {
      CHECK_FALSE(c.is_healthy());
      step = 1;
      while (step != 2) std::this_thread::yield();
      CHECK(said(c.attempt_reconnect()) == "ok");
    });
    while (step != 1) std::this_thread::yield();
    CHECK(said(c.attempt_reconnect()) == "ok");
    step = 2;
    late.join();
    CHECK(c.epoch() == 1);
    CHECK(sums(c) == "ok");
  });
}

TEST_CASE(
    "attempt_reconnect: if a rank does not come nobody starts, it is named, and all try again") {
  const NoReports none;
  std::atomic<int> failed{0};
  std::barrier all(3);
  run_nccl(
      // Long enough for a busy machine to come back in, at the first try: one that gives up at the
      // last step takes the others, which are back, along.
      3, [](NcclConfig& config) { config.reconnect_timeout = milliseconds(4000); },
      [&](Communicator<Nccl>& c) {
        CHECK(sums(c) == "ok");
        all.arrive_and_wait();
        if (c.rank() != 1) {
          const std::string alone = said(c.attempt_reconnect());
          CHECK_MESSAGE(has(alone, "missing rank 1"), alone);
          CHECK_FALSE(c.is_healthy());
          CHECK_FALSE(c.all_reduce(comm::DeviceSpan<int>()).ok());
          ++failed;
        }
        while (failed < 2) std::this_thread::yield();
        std::string together;
        for (int i = 0; i < 50 && together != "ok"; ++i) together = said(c.attempt_reconnect());
        CHECK(together == "ok");
        CHECK(sums(c) == "ok");
      });
}

TEST_CASE("attempt_reconnect: a rank that starts anew takes its place, rank 0 too; handles last") {
  for (const int reborn : {0, 2}) {
    const NoReports none;
    std::atomic<bool> is_gone{false};
    on_ranks(3, [&](int rank, NcclConfig config) {
      auto made = Communicator<Nccl>::create(config);
      CHECK(said(made) == "ok");
      if (!made.ok()) return;
      std::optional<Communicator<Nccl>> c(std::move(*made));
      DeviceBuffer<float> buffer(std::vector<float>(100, 1.0F));
      CHECK(sums(*c) == "ok");
      if (rank == reborn) {
        c.reset();
        is_gone = true;
        auto again = Communicator<Nccl>::create(config);
        CHECK(said(again) == "ok");
        if (again.ok()) {
          CHECK(again->epoch() == 1);
          CHECK(sums(*again) == "ok");
        }
        return;
      }
      auto handle = c->register_buffer(buffer.span());
      CHECK(said(handle) == "ok");
      while (!is_gone) std::this_thread::yield();
      CHECK(said(c->attempt_reconnect()) == "ok");
      CHECK(sums(*c) == "ok");
      if (handle.ok()) CHECK(said(c->deregister_buffer(*handle)) == "ok");
    });
  }
}

TEST_CASE("200 times abort and reconnect leave descriptors, threads, mappings and memory flat") {
  const NoReports none;
  Held before, after;
  std::barrier all(2);
  run_nccl(2, [&](Communicator<Nccl>& c) {
    DeviceBuffer<float> buffer(std::vector<float>(1000, 1.0F));
    auto handle = c.register_buffer(buffer.span());
    for (int i = 0; i < 200; ++i) {
      all.arrive_and_wait();
      if (i == 20 && c.rank() == 0) before = Held::now();
      all.arrive_and_wait();
      if (c.rank() == i % 2) CHECK(said(c.abort()) == "ok");
      REQUIRE(said(c.attempt_reconnect()) == "ok");
      CHECK(sums(c) == "ok");
    }
    all.arrive_and_wait();
    if (c.rank() == 0) after = Held::now();
    all.arrive_and_wait();
    CHECK(c.epoch() == 200);
    if (handle.ok()) CHECK(said(c.deregister_buffer(*handle)) == "ok");
  });
  CHECK(after.descriptors <= before.descriptors);
  CHECK(after.threads <= before.threads + 2);  // Those that are on their way out.
  CHECK(after.mappings <= before.mappings + 20);
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr long kOverhead = 128 * 1024;  // What a sanitizer keeps of what was freed.
#else
  constexpr long kOverhead = 0;
#endif
  CHECK(after.kilobytes <= before.kilobytes + 16 * 1024 + kOverhead);
}

TEST_CASE("a rank that does not come is named on all when the time is up, with what it did last") {
  const NoReports none;
  std::atomic<int> told{0};
  run_nccl(4, short_waits, [&](Communicator<Nccl>& c) {
    CHECK(sums(c) == "ok");
    if (c.rank() != 2) {
      const std::string late = said(c.barrier_wait());
      CHECK_MESSAGE(has(late, "rank 2 has submitted "), late);
      ++told;
    }
    while (told < 3) std::this_thread::yield();
  });
}

TEST_CASE("a completed operation is a success, however late the clock is looked at") {
  const NoReports none;
  run_nccl(2, [](Communicator<Nccl>& c) {
    DeviceBuffer<int> one({1});
    CHECK(said(c.all_reduce(one.span())) == "ok");
    CHECK(cudaStreamSynchronize(c.backend().stream()) == cudaSuccess);
    CHECK(said(c.synchronize({}, milliseconds(0))) == "ok");
  });
}

TEST_CASE(
    "trap 12: after a failure with a live graph a reconnect waits for the graph, and comes back") {
  run_nccl(2, short_waits, [](Communicator<Nccl>& c) {
    DeviceBuffer<float> buffer(std::vector<float>(10, 1.0F));
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    CHECK(said(c.all_reduce(buffer.span(), comm::ReduceOp::max, stream)) == "ok");
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    CHECK(has(said(c.abort()), "graphs"));
    CHECK(has(said(c.attempt_reconnect()), "graphs"));
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    std::string back;
    for (int i = 0; i < 20 && back != "ok"; ++i) back = said(c.attempt_reconnect());
    CHECK(back == "ok");
    CHECK(sums(c) == "ok");
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  });
  (void)comm::simulated::take_reports();
}

TEST_CASE("is_healthy during a capture leaves it alone, and a failed communicator refuses in it") {
  const NoReports none;
  std::barrier both(2);
  run_nccl(2, [&](Communicator<Nccl>& c) {
    DeviceBuffer<float> buffer(std::vector<float>(10, 1.0F));
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    both.arrive_and_wait();  // While one captures nobody may allocate.
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    CHECK(said(c.all_reduce(buffer.span(), comm::ReduceOp::max, stream)) == "ok");
    CHECK(c.is_healthy());
    std::thread other([&] { CHECK(c.is_healthy()); });
    other.join();
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    both.arrive_and_wait();
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    CHECK(said(c.abort()) == "ok");
    both.arrive_and_wait();
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    CHECK(c.all_reduce(buffer.span(), comm::ReduceOp::max, stream).code() == StatusCode::unhealthy);
    CHECK_FALSE(c.is_healthy());
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    both.arrive_and_wait();  // Nor free.
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  });
}

TEST_CASE(
    "fault 21: however many threads end it at once, NCCL is asked once for each communicator") {
  const NoReports none;
  std::barrier all(2);
  run_nccl(2, [&](Communicator<Nccl>& c) {
    all.arrive_and_wait();
    if (c.rank() == 0) comm::simulated::clear_calls();
    all.arrive_and_wait();
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&, i] {
        if (i % 2 == 0)
          CHECK(said(c.abort()) == "ok");
        else
          (void)c.is_healthy();
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(said(c.backend().close()) == "ok");
    all.arrive_and_wait();
    if (c.rank() == 0)
      CHECK(comm::simulated::calls("ncclCommAbort") + comm::simulated::calls("ncclCommDestroy") ==
            2);
  });
}

TEST_CASE("shrink without the excluded rank goes on, while all is well and after a failure") {
  const NoReports none;
  struct Case {
    bool after_failure;
    bool is_rebuilt;  // What failed is aborted, so NCCL has nothing to shrink.
    comm::NcclMode mode;
  };
  for (const Case test :
       {Case{false, false, comm::NcclMode::blocking}, Case{true, false, comm::NcclMode::blocking},
        Case{true, true, comm::NcclMode::blocking},
        Case{true, true, comm::NcclMode::non_blocking}}) {
    const bool after_failure = test.after_failure;
    CAPTURE(after_failure);
    CAPTURE(test.is_rebuilt);
    std::barrier all(3);
    run_nccl(
        3,
        [&](NcclConfig& config) {
          config.abort_on_failure = test.is_rebuilt;
          config.mode = test.mode;
          config.collective_timeout = milliseconds(5000);
        },
        [&](Communicator<Nccl>& c) {
          CHECK(sums(c) == "ok");
          // What an operation that failed uses is freed when the communicator has let go of it.
          DeviceBuffer<int> buffer(std::vector<int>(1000, 1));
          all.arrive_and_wait();
          if (after_failure) {
            if (c.rank() == 2)
              comm::simulated::inject({.call = "ncclAllReduce",
                                       .nth = 1,
                                       .rank = 2,
                                       .action = FaultAction::async_error,
                                       .value = ncclRemoteError});
            std::string failed = said(c.all_reduce(buffer.span(), comm::ReduceOp::max));
            if (failed == "ok") failed = said(c.synchronize());
            CHECK(failed != "ok");
          }
          if (c.rank() == 2) {
            all.arrive_and_wait();
            CHECK(said(c.abort()) == "ok");
            return;
          }
          auto rest = c.shrink({2});
          CHECK(said(rest) == "ok");
          if (rest.ok()) CHECK(sums(*rest) == "ok");
          all.arrive_and_wait();
          CHECK(said(c.abort()) == "ok");
        });
    (void)comm::simulated::take_reports();
  }
}

TEST_CASE("recv_command_u32: no deadline, a health check meanwhile, and a head that dies") {
  const NoReports none;
  std::barrier both(2);
  run_nccl(2, short_waits, [&](Communicator<Nccl>& c) {
    DeviceBuffer<std::uint32_t> command({7});
    if (c.rank() == 1) {
      std::atomic<bool> done{false};
      std::thread asks([&] {
        while (!done) (void)c.is_healthy();
      });
      CHECK(said(c.recv_command_u32(command.span(), 0)) == "ok");
      CHECK(command.read()[0] == 7);
      done = true;
      asks.join();
      both.arrive_and_wait();
      const std::string lost = said(c.recv_command_u32(command.span(), 0));
      CHECK_MESSAGE(has(lost, "rank 0"), lost);
      CHECK(said(c.abort()) == "ok");
      CHECK(cudaStreamSynchronize(c.backend().stream()) == cudaSuccess);
      return;
    }
    // Twice as long as the deadline of anything else.
    std::this_thread::sleep_for(milliseconds(800));
    CHECK(said(c.broadcast(command.span(), 0)) == "ok");
    both.arrive_and_wait();
    CHECK(said(c.abort()) == "ok");
  });
}

TEST_CASE("recv_command_u32: a head that leaves in good order ends the wait of the others") {
  const NoReports none;
  run_nccl(3, short_waits, [&](Communicator<Nccl>& c) {
    DeviceBuffer<std::uint32_t> command({7});
    if (c.rank() == 0) return;
    const std::string left = said(c.recv_command_u32(command.span(), 0));
    CHECK_MESSAGE(has(left, "rank 0 has left"), left);
    CHECK(said(c.abort()) == "ok");
    CHECK(cudaStreamSynchronize(c.backend().stream()) == cudaSuccess);
  });
}
