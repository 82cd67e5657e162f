#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "comm/testing/simulated/calls.h"
#include "tests/nccl/world.h"

// The numbers are those of docs/failures.md.

namespace {

using comm::Communicator;
using comm::DeviceSpan;
using comm::Nccl;
using comm::NcclConfig;
using comm::NcclMode;
using comm::ReduceOp;
using comm::StatusCode;
using comm::Stream;
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

TEST_CASE("fault 45: work on streams 0, legacy and per-thread is the caller's, or is refused") {
  for (const NcclMode mode : {NcclMode::blocking, NcclMode::non_blocking}) {
    const NoReports none;
    run_nccl(
        2, [&](NcclConfig& config) { config.mode = mode; },
        [&](Communicator<Nccl>& c) {
          const cudaStream_t streams[] = {nullptr, cudaStreamLegacy, cudaStreamPerThread};
          for (cudaStream_t stream : streams) {
            DeviceBuffer<int> buffer(std::vector<int>(1000, 0));
            CHECK(cudaMemsetAsync(buffer.span().data(), 1, 4000, stream) == cudaSuccess);
            const comm::Status s = c.all_reduce(buffer.span(), ReduceOp::sum, Stream(stream));
            const bool elsewhere = mode == NcclMode::non_blocking && stream == cudaStreamPerThread;
            CHECK(s.code() == (elsewhere ? StatusCode::invalid_argument : StatusCode::ok));
            CHECK(said(c.synchronize(Stream(stream))) == "ok");
            CHECK(buffer.read()[999] == (elsewhere ? 0x01010101 : 0x02020202));
          }
        });
  }
}

TEST_CASE("fault 29: no operation, wait or end makes a blocking call that a dead peer could hold") {
  const NoReports none;
  comm::simulated::clear_calls();
  run_nccl(2, [](Communicator<Nccl>& c) {
    DeviceBuffer<int> buffer(std::vector<int>(1000, 1));
    comm::simulated::clear_calls();
    CHECK(said(c.all_reduce(buffer.span())) == "ok");
    CHECK(said(c.broadcast(buffer.span(), 0)) == "ok");
    CHECK(said(c.all_reduce_async(buffer.span())) == "ok");
    CHECK(said(c.synchronize()) == "ok");
    CHECK(said(c.barrier_wait()) == "ok");
    CHECK(said(c.backend().close()) == "ok");
    for (const char* call : {"cudaStreamSynchronize", "cudaDeviceSynchronize",
                             "cudaEventSynchronize", "cuStreamSynchronize", "cuCtxSynchronize"})
      CHECK_MESSAGE(comm::simulated::calls(call) == 0, call);
  });
}

TEST_CASE(
    "fault 46: a capture survives health checks of another thread, before and after a failure") {
  const NoReports none;
  run_nccl(1, short_waits, [](Communicator<Nccl>& c) {
    DeviceBuffer<float> buffer(std::vector<float>(100, 1.0F));
    cudaStream_t stream = nullptr;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    for (const auto capture : {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeGlobal}) {
      std::atomic<bool> done{false};
      std::atomic<int> looks{0};
      CHECK(cudaStreamBeginCapture(stream, capture) == cudaSuccess);
      std::thread watcher([&] {
        (void)cudaSetDevice(0);
        while (!done) {
          if (c.is_healthy()) ++looks;
          (void)c.barrier_wait(milliseconds(1000)).ok();
        }
      });
      while (looks < 20) std::this_thread::yield();
      CHECK(said(c.all_reduce(buffer.span(), ReduceOp::max, Stream(stream))) == "ok");
      done = true;
      watcher.join();
      cudaGraph_t graph = nullptr;
      CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
      CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    }
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    CHECK(said(c.abort()) == "ok");
    CHECK(c.all_reduce(buffer.span(), ReduceOp::max, Stream(stream)).code() ==
          StatusCode::unhealthy);
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  });
}

TEST_CASE("fault 17: counts that differ end by the deadline on both ranks, whoever had more") {
  run_nccl(2, short_waits, [](Communicator<Nccl>& c) {
    DeviceBuffer<float> buffer(std::vector<float>(70'000, 1.0F));
    const std::size_t count = c.rank() == 0 ? 60'000 : 60'001;
    comm::Status s = c.all_reduce(DeviceSpan<float>(buffer.span().data(), count));
    if (s.ok()) s = c.synchronize();
    CHECK_FALSE(s.ok());
    CHECK(said(c.abort()) == "ok");
  });
  CHECK(comm::simulated::reports(comm::simulated::Violation::mismatch).size() >= 1);
  (void)comm::simulated::take_reports();
}

TEST_CASE("fault 18: types that differ at equal sizes end by the deadline on both ranks") {
  run_nccl(2, short_waits, [](Communicator<Nccl>& c) {
    DeviceBuffer<std::int32_t> buffer(std::vector<std::int32_t>(50'000, 1));
    comm::Status s;
    if (c.rank() == 0) {
      s = c.all_reduce(buffer.span());
    } else {
      s = c.all_reduce(
          DeviceSpan<float>(reinterpret_cast<float*>(buffer.span().data()), buffer.span().size()));
    }
    if (s.ok()) s = c.synchronize();
    CHECK_FALSE(s.ok());
    CHECK(said(c.abort()) == "ok");
  });
  CHECK(comm::simulated::reports(comm::simulated::Violation::mismatch).size() >= 1);
  (void)comm::simulated::take_reports();
}

TEST_CASE("fault 20: the wait says that the time is up, and the next call asks nobody") {
  const NoReports none;
  run_nccl(2, short_waits, [](Communicator<Nccl>& c) {
    DeviceBuffer<int> buffer(std::vector<int>(50'000, 1));
    if (c.rank() == 1) {
      while (c.is_healthy()) std::this_thread::yield();  // Rank 0 tells.
    } else {
      comm::Status s = c.all_reduce(buffer.span());
      if (s.ok()) s = c.synchronize();
      CHECK(s.code() == StatusCode::timeout);
    }
    comm::simulated::clear_calls();
    CHECK(c.all_reduce(buffer.span()).code() == StatusCode::unhealthy);
    CHECK(said(c.abort()) == "ok");
    CHECK(cudaDeviceSynchronize() == cudaSuccess);  // Before its buffer is freed.
  });
}

TEST_CASE("fault 22: parent and child that both wait for a peer are aborted together") {
  const NoReports none;
  run_nccl(2, short_waits, [](Communicator<Nccl>& c) {
    auto other = c.split(0, 0);
    CHECK(said(other) == "ok");
    if (!other.ok()) return;
    DeviceBuffer<int> first(std::vector<int>(50'000, 1));
    DeviceBuffer<int> second(std::vector<int>(50'000, 1));
    CHECK(said(c.barrier_wait(milliseconds(10'000))) == "ok");
    if (c.rank() == 0) {
      // Nobody answers these; one of them would hold the memory of the other for ever.
      (void)c.all_reduce(first.span(), ReduceOp::max).ok();
      (void)other->all_reduce(second.span(), ReduceOp::max).ok();
    }
    while (c.is_healthy() && c.rank() == 1) std::this_thread::yield();
    if (c.rank() == 0) CHECK_FALSE(c.synchronize().ok());
    CHECK(said(c.abort()) == "ok");
    CHECK(said(other->abort()) == "ok");
    CHECK(cudaDeviceSynchronize() == cudaSuccess);  // Before the buffers are freed.
  });
}

TEST_CASE("fault 33: NCCL is told of the bytes of the buffer, not of the pointer to them") {
  const NoReports none;
  run_nccl(1, [](Communicator<Nccl>& c) {
    DeviceBuffer<float> buffer(std::vector<float>(3000, 1.0F));
    auto handle = c.register_buffer(buffer.span());
    CHECK(said(handle) == "ok");
    (void)comm::simulated::report_leaks();
    char range[64];
    std::snprintf(range, sizeof range, "[%p, +12000) registered",
                  static_cast<void*>(buffer.span().data()));
    bool found = false;
    for (const auto& report : comm::simulated::take_reports())
      found = found || has(report.text, range);
    CHECK(found);
    if (handle.ok()) CHECK(said(c.deregister_buffer(*handle)) == "ok");
  });
}

TEST_CASE("fault 40: a count over 2^31 reaches NCCL whole") {
  // The buffer is far too small for it: what the simulation says was touched is the whole range.
  run_nccl(1, short_waits, [](Communicator<Nccl>& c) {
    DeviceBuffer<std::int8_t> buffer(std::vector<std::int8_t>(16, 1));
    const std::size_t count = (std::size_t{1} << 31) + 3;
    comm::Status s = c.all_reduce(DeviceSpan<std::int8_t>(buffer.span().data(), count));
    bool found = false;
    for (const auto& report : comm::simulated::take_reports())
      found = found || has(report.text, "2147483651");
    CHECK(found);
    if (s.ok()) s = c.synchronize();
    CHECK_FALSE(s.ok());
    CHECK(c.all_reduce(DeviceSpan<double>(reinterpret_cast<double*>(std::uintptr_t{64}),
                                          std::size_t{1} << 61))
              .code() != StatusCode::ok);
    CHECK(said(c.abort()) == "ok");
  });
  (void)comm::simulated::take_reports();
}
