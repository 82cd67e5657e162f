// Stream capture and graphs (CUDA C++ Programming Guide, "Creating a Graph Using Stream Capture",
// "Cross-stream Dependencies and Events", "Prohibited and Unhandled Operations"; CUDA Runtime API,
// "cudaThreadExchangeStreamCaptureMode"; NCCL User Guide, "Using NCCL with CUDA Graphs").

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <atomic>

#include "tests/simulated/fixture.h"
#include "tests/simulated/own_symbols.h"

using namespace comm;
using namespace comm::testing;

namespace {

constexpr std::size_t kBytes = 256;

// Captures what `body` does on the stream and makes it executable; null when the capture failed.
cudaGraphExec_t captured(cudaStream_t stream, cudaStreamCaptureMode mode,
                         const std::function<void()>& body, cudaError_t expected = cudaSuccess) {
  REQUIRE(cudaStreamBeginCapture(stream, mode) == cudaSuccess);
  body();
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream, &graph) == expected);
  if (graph == nullptr) return nullptr;
  cudaGraphExec_t exec = nullptr;
  CHECK(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  return exec;
}

}  // namespace

TEST_CASE("the symbols are the simulation's") {
  CHECK(is_simulated(cudaGraphLaunch));
}

TEST_CASE("a capture runs nothing; each launch runs all of it") {
  Watchdog watchdog("capture");
  NoReports none;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    simulated::set_seed(seed);
    OwnedStream stream;
    OwnedStream side;
    OwnedEvent fork;
    OwnedEvent join;
    Buffer<char> data(kBytes);
    Buffer<char> copy(kBytes);
    cudaMemsetAsync(data.get(), 1, kBytes, stream);
    cudaMemsetAsync(copy.get(), 1, kBytes, stream);
    const cudaGraphExec_t exec = captured(stream, cudaStreamCaptureModeGlobal, [&] {
      cudaMemsetAsync(data.get(), 9, kBytes, stream);
      cudaEventRecord(fork, stream);
      CHECK(cudaStreamWaitEvent(side, fork, 0) == cudaSuccess);
      cudaMemcpyAsync(copy.get(), data.get(), kBytes, cudaMemcpyDeviceToDevice, side);
      cudaEventRecord(join, side);
      CHECK(cudaStreamWaitEvent(stream, join, 0) == cudaSuccess);
    });
    CHECK(copy.take(stream)[7] == 1);
    for (int i = 0; i < 2; ++i) {
      CHECK(cudaGraphLaunch(exec, stream) == cudaSuccess);
      CHECK(copy.take(stream)[7] == 9);
      cudaMemsetAsync(copy.get(), 1, kBytes, stream);
    }
    cudaStreamSynchronize(stream);
    CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
  }
}

TEST_CASE("a branch that does not come back fails the capture") {
  NoReports none;
  OwnedStream stream;
  OwnedStream side;
  OwnedEvent fork;
  Buffer<char> data(kBytes);
  captured(
      stream, cudaStreamCaptureModeGlobal,
      [&] {
        cudaEventRecord(fork, stream);
        cudaStreamWaitEvent(side, fork, 0);
        cudaMemsetAsync(data.get(), 1, kBytes, side);
      },
      cudaErrorStreamCaptureUnjoined);
}

TEST_CASE("an event from before the capture cannot be waited for inside it") {
  NoReports none;
  OwnedStream stream;
  OwnedStream other;
  OwnedEvent event;
  cudaEventRecord(event, other);
  captured(
      stream, cudaStreamCaptureModeRelaxed,
      [&] { CHECK(cudaStreamWaitEvent(stream, event, 0) == cudaErrorStreamCaptureIsolation); },
      cudaErrorStreamCaptureInvalidated);
}

TEST_CASE("synchronising with a capture, or asking for its state, invalidates it") {
  NoReports none;
  OwnedStream stream;
  OwnedEvent event;
  const auto invalidated_by = [&](const std::function<void()>& call) {
    captured(stream, cudaStreamCaptureModeRelaxed, call, cudaErrorStreamCaptureInvalidated);
  };
  invalidated_by(
      [&] { CHECK(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported); });
  invalidated_by([&] { CHECK(cudaStreamQuery(stream) == cudaErrorStreamCaptureUnsupported); });
  invalidated_by([&] {
    cudaEventRecord(event, stream);
    CHECK(cudaEventQuery(event) == cudaErrorCapturedEvent);
  });
  invalidated_by([&] { CHECK(cudaDeviceSynchronize() == cudaErrorStreamCaptureUnsupported); });
  cudaGetLastError();
}

TEST_CASE("the legacy stream may not be used beside a blocking stream's capture") {
  NoReports none;
  OwnedStream stream(cudaStreamDefault);
  Buffer<char> data(kBytes);
  captured(
      stream, cudaStreamCaptureModeRelaxed,
      [&] { CHECK(cudaMemset(data.get(), 0, kBytes) == cudaErrorStreamCaptureImplicit); },
      cudaErrorStreamCaptureInvalidated);
  CHECK(cudaStreamBeginCapture(cudaStreamLegacy, cudaStreamCaptureModeGlobal) ==
        cudaErrorStreamCaptureUnsupported);
}

TEST_CASE("modes: whose unsafe call breaks whose capture (FAULTS 46)") {
  NoReports none;
  OwnedStream stream;
  OwnedEvent unrelated;
  const auto query_elsewhere = [&](cudaStreamCaptureMode of_thread) {
    cudaError_t answer = cudaSuccess;
    std::thread([&] {
      cudaThreadExchangeStreamCaptureMode(&of_thread);
      answer = cudaEventQuery(unrelated);
    }).join();
    return answer;
  };
  // Global: a query on any thread breaks it, unless that thread said relaxed.
  captured(
      stream, cudaStreamCaptureModeGlobal,
      [&] {
        CHECK(query_elsewhere(cudaStreamCaptureModeRelaxed) == cudaSuccess);
        CHECK(query_elsewhere(cudaStreamCaptureModeGlobal) == cudaErrorStreamCaptureUnsupported);
      },
      cudaErrorStreamCaptureInvalidated);
  // Thread-local: only the capturing thread's.
  cudaGraphExec_t exec = captured(stream, cudaStreamCaptureModeThreadLocal, [&] {
    CHECK(query_elsewhere(cudaStreamCaptureModeGlobal) == cudaSuccess);
  });
  CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
  captured(
      stream, cudaStreamCaptureModeThreadLocal,
      [&] { CHECK(cudaEventQuery(unrelated) == cudaErrorStreamCaptureUnsupported); },
      cudaErrorStreamCaptureInvalidated);
  // Relaxed: nobody's; and allocation is allowed.
  exec = captured(stream, cudaStreamCaptureModeRelaxed, [&] {
    CHECK(cudaEventQuery(unrelated) == cudaSuccess);
    Buffer<char> made(1);
  });
  CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("a capture ends on the thread and the stream where it began") {
  NoReports none;
  OwnedStream stream;
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaErrorIllegalState);
  std::thread([&] {
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureWrongThread);
  }).join();
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorIllegalState);
}

TEST_CASE("collectives and messages in a graph, launched again and again, beside plain ones") {
  Watchdog watchdog("captured collectives");
  NoReports none;
  for (unsigned seed = 1; seed <= 10; ++seed) {
    simulated::set_seed(seed);
    with_ranks(2, [](Rank r) {
      Buffer<int> data({r.rank + 1}, r.stream);
      Buffer<int> other(1);
      const cudaGraphExec_t exec = captured(r.stream, cudaStreamCaptureModeThreadLocal, [&] {
        CHECK(ncclAllReduce(data.get(), data.get(), 1, ncclInt, ncclSum, r.comm, r.stream) ==
              ncclSuccess);
        ncclGroupStart();
        ncclSend(data.get(), 1, ncclInt, 1 - r.rank, r.comm, r.stream);
        ncclRecv(other.get(), 1, ncclInt, 1 - r.rank, r.comm, r.stream);
        CHECK(ncclGroupEnd() == ncclSuccess);
      });
      int expected = 3;
      for (int i = 0; i < 3; ++i) {
        CHECK(cudaGraphLaunch(exec, r.stream) == cudaSuccess);
        CHECK(other.take(r.stream)[0] == expected);
        ncclAllReduce(data.get(), data.get(), 1, ncclInt, ncclSum, r.comm, r.stream);
        expected *= 4;
      }
      cudaStreamSynchronize(r.stream);
      CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
    });
  }
}

TEST_CASE("destroy waits for the graphs that captured the communicator (trap 12)") {
  Watchdog watchdog("graphs hold the communicator");
  NoReports none;
  ncclComm_t comm = nullptr;
  const int device = 0;
  REQUIRE(ncclCommInitAll(&comm, 1, &device) == ncclSuccess);
  {
    OwnedStream stream;
    Buffer<int> data({1}, stream);
    cudaStreamSynchronize(stream);
    const cudaGraphExec_t exec = captured(stream, cudaStreamCaptureModeThreadLocal, [&] {
      ncclAllReduce(data.get(), data.get(), 1, ncclInt, ncclSum, comm, stream);
    });
    std::atomic<bool> graph_gone{false};
    bool destroyed_after = false;
    std::thread destroyer([&] {
      CHECK(ncclCommDestroy(comm) == ncclSuccess);
      destroyed_after = graph_gone;
    });
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    graph_gone = true;
    CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
    destroyer.join();
    CHECK(destroyed_after);
  }
}

TEST_CASE("a capture that failed holds nothing, though an event of it is still there (trap 12)") {
  Watchdog watchdog("a failed capture holds nothing");
  NoReports none;
  ncclComm_t comm = nullptr;
  const int device = 0;
  REQUIRE(ncclCommInitAll(&comm, 1, &device) == ncclSuccess);
  cudaEvent_t event = nullptr;
  CHECK(cudaEventCreate(&event) == cudaSuccess);
  {
    OwnedStream stream;
    OwnedStream branch;
    Buffer<int> data({1}, stream);
    cudaStreamSynchronize(stream);
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    CHECK(cudaEventRecord(event, stream) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(branch, event, 0) == cudaSuccess);
    ncclAllReduce(data.get(), data.get(), 1, ncclInt, ncclSum, comm, branch);
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureUnjoined);
    CHECK(ncclCommDestroy(comm) == ncclSuccess);
  }
  CHECK(cudaEventDestroy(event) == cudaSuccess);
}
