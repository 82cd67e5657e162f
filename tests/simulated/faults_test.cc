// Faults by API and by text, and what NCCL and CUDA answer under them.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <chrono>
#include <string>

#include "comm/testing/simulated/calls.h"
#include "tests/simulated/fixture.h"
#include "tests/simulated/own_symbols.h"

using namespace comm;
using namespace comm::testing;
using simulated::FaultAction;

TEST_CASE("the symbols are the simulation's") {
  CHECK(is_simulated(ncclCommGetAsyncError));
}

TEST_CASE("the nth call fails, on the named rank only") {
  Watchdog watchdog("nth call");
  NoReports none;
  with_ranks(2, [](Rank r) {
    Buffer<int> data({1}, r.stream);
    if (r.rank == 1) {
      simulated::inject({.call = "ncclBroadcast",
                         .nth = 2,
                         .rank = 1,
                         .action = FaultAction::fail,
                         .value = ncclSystemError});
    }
    for (int i = 1; i <= 3; ++i) {
      const ncclResult_t result =
          ncclBroadcast(data.get(), data.get(), 1, ncclInt, 1, r.comm, r.stream);
      CHECK(result == (r.rank == 1 && i == 2 ? ncclSystemError : ncclSuccess));
      if (result != ncclSuccess) {
        CHECK(ncclBroadcast(data.get(), data.get(), 1, ncclInt, 1, r.comm, r.stream) ==
              ncclSuccess);
      }
    }
    CHECK(data.take(r.stream)[0] == 1);
  });
}

TEST_CASE("the text form is the API's, and nonsense is refused by its words") {
  NoReports none;
  std::string why;
  CHECK(simulated::inject("cudaMalloc@2:fail=2;cudaFree,rank=3:lose", &why));
  CHECK_FALSE(simulated::inject("cudaMalloc@x:fail", &why));
  CHECK(why == "cudaMalloc@x:fail");
  CHECK_FALSE(simulated::inject("cudaMalloc:explode", &why));
  void* pointer = nullptr;
  CHECK(cudaMalloc(&pointer, 64) == cudaSuccess);
  void* second = nullptr;
  CHECK(cudaMalloc(&second, 64) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaFree(pointer) == cudaSuccess);
}

TEST_CASE("out of memory without a fault: a device has 80 GiB") {
  NoReports none;
  void* pointer = nullptr;
  CHECK(cudaMalloc(&pointer, std::size_t{81} << 30) == cudaErrorMemoryAllocation);
  CHECK(pointer == nullptr);
  cudaGetLastError();
}

TEST_CASE("a lost event orders nothing, and that is reported") {
  NoReports none;
  OwnedStream a;
  OwnedStream b;
  OwnedEvent event;
  Buffer<int> data(8);
  simulated::inject({.call = "cudaEventRecord", .action = FaultAction::lose});
  cudaMemsetAsync(data.get(), 1, 32, a);
  CHECK(cudaEventRecord(event, a) == cudaSuccess);
  cudaStreamWaitEvent(b, event, 0);
  cudaMemsetAsync(data.get(), 2, 32, b);
  cudaDeviceSynchronize();
  CHECK(simulated::take_reports().size() == 1);
}

TEST_CASE("an asynchronous error comes later, and the operation never completes (trap 36)") {
  Watchdog watchdog("asynchronous error");
  NoReports none;
  simulated::inject({.call = "ncclAllReduce",
                     .rank = 0,
                     .action = FaultAction::async_error,
                     .value = ncclRemoteError});
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  on_threads(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    REQUIRE(ncclCommInitRank(&comm, 2, id, rank) == ncclSuccess);
    OwnedStream stream;
    int* data = nullptr;
    cudaMalloc(reinterpret_cast<void**>(&data), sizeof(int));
    CHECK(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comm, stream) == ncclSuccess);
    if (rank == 0) {
      cudaStreamQuery(stream);  // Whoever polls the stream makes it go on.
      ncclResult_t state = ncclSuccess;
      while (state == ncclSuccess) ncclCommGetAsyncError(comm, &state);
      CHECK(state == ncclRemoteError);
      CHECK(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comm, stream) == ncclRemoteError);
    }
    CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
    CHECK(ncclCommAbort(comm) == ncclSuccess);
    CHECK(cudaFree(data) == cudaSuccess);
  });
  cudaGetLastError();
}

TEST_CASE("in progress for as many polls as asked") {
  Watchdog watchdog("in progress");
  NoReports none;
  simulated::inject(
      {.call = "ncclCommInitRankConfig", .action = FaultAction::in_progress, .value = 5});
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  ncclCommInitRankConfig(&comm, 1, id, 0, &config);
  int polls = 0;
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    ncclCommGetAsyncError(comm, &state);
    ++polls;
  }
  CHECK(state == ncclSuccess);
  CHECK(polls > 5);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("a call that blocks is freed by an abort from another thread") {
  Watchdog watchdog("blocked call");
  NoReports none;
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclComm_t comm = nullptr;
  REQUIRE(ncclCommInitRank(&comm, 1, id, 0) == ncclSuccess);
  const int before = simulated::faults_fired();
  simulated::inject({.call = "ncclAllReduce", .action = FaultAction::block});
  std::thread caller([&] {
    OwnedStream stream;
    Buffer<int> data(1);
    CHECK(ncclAllReduce(data.get(), data.get(), 1, ncclInt, ncclSum, comm, stream) != ncclSuccess);
  });
  while (simulated::faults_fired() == before) std::this_thread::yield();
  CHECK(ncclCommAbort(comm) == ncclSuccess);
  caller.join();
}

TEST_CASE("the first operation with a peer blocks the host until the peer's comes") {
  Watchdog watchdog("lazy connection");
  NoReports none;
  std::atomic<bool> entered{false};
  with_ranks(2, [&](Rank r) {
    Buffer<int> data({1}, r.stream);
    cudaStreamSynchronize(r.stream);
    if (r.rank == 1) {
      while (!entered) std::this_thread::yield();
      entered = false;
    } else {
      entered = true;
    }
    ncclAllReduce(data.get(), data.get(), 1, ncclInt, ncclSum, r.comm, r.stream);
    if (r.rank == 0) CHECK_FALSE(entered);
    CHECK(data.take(r.stream)[0] == 2);
  });
}

TEST_CASE("two communicators in opposite orders deadlock; an abort of both ends it (trap 31)") {
  Watchdog watchdog("opposite orders");
  NoReports none;
  simulated::Settings settings = simulated::settings();
  settings.connect_lazily = false;
  simulated::set_settings(settings);
  ncclUniqueId ids[2];
  ncclGetUniqueId(&ids[0]);
  ncclGetUniqueId(&ids[1]);
  std::atomic<int> issued{0};
  std::atomic<int> polled{0};
  on_threads(2, [&](int rank) {
    ncclComm_t comms[2] = {};
    for (int i : {0, 1}) REQUIRE(ncclCommInitRank(&comms[i], 2, ids[i], rank) == ncclSuccess);
    OwnedStream streams[2];
    int* data = nullptr;
    cudaMalloc(reinterpret_cast<void**>(&data), 2 * sizeof(int));
    for (int i : {rank, 1 - rank}) {
      CHECK(ncclAllReduce(data + i, data + i, 1, ncclInt, ncclSum, comms[i], streams[i]) ==
            ncclSuccess);
    }
    ++issued;
    while (issued < 2) std::this_thread::yield();
    for (int polls = 0; polls < 100; ++polls) {
      CHECK(cudaStreamQuery(streams[0]) == cudaErrorNotReady);
      CHECK(cudaStreamQuery(streams[1]) == cudaErrorNotReady);
    }
    // The first abort ends the other rank's work, too.
    ++polled;
    while (polled < 2) std::this_thread::yield();
    ncclGroupStart();
    for (ncclComm_t comm : comms) ncclCommAbort(comm);
    CHECK(ncclGroupEnd() == ncclSuccess);
    CHECK(cudaFree(data) == cudaSuccess);
  });
  settings.connect_lazily = true;
  simulated::set_settings(settings);
  cudaGetLastError();
}

TEST_CASE("a driver that is gone answers so, and NCCL must not be called then") {
  Watchdog watchdog("unloaded");
  NoReports none;
  ncclComm_t comm = nullptr;
  const int device = 0;
  REQUIRE(ncclCommInitAll(&comm, 1, &device) == ncclSuccess);
  simulated::unload_driver();
  void* pointer = nullptr;
  CHECK(cudaMalloc(&pointer, 1) == cudaErrorCudartUnloading);
  CHECK(cudaDeviceSynchronize() == cudaErrorCudartUnloading);
  CHECK(ncclCommDestroy(comm) == ncclUnhandledCudaError);
  CHECK(simulated::take_reports().size() == 1);
  simulated::clear_faults();
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
  cudaGetLastError();
}

TEST_CASE("a kernel's fault sticks to the device") {
  NoReports none;
  cudaSetDevice(6);
  {
    OwnedStream stream;
    Buffer<int> data(1);
    simulated::inject({.call = "cudaMemsetAsync",
                       .action = FaultAction::async_error,
                       .value = cudaErrorLaunchFailure});
    CHECK(cudaMemsetAsync(data.get(), 0, 4, stream) == cudaSuccess);
    CHECK(cudaStreamSynchronize(stream) == cudaErrorLaunchFailure);
    CHECK(cudaMemsetAsync(data.get(), 0, 4, stream) == cudaErrorLaunchFailure);
    cudaDeviceReset();
  }
  cudaSetDevice(0);
  cudaGetLastError();
}

TEST_CASE("calls are counted by name") {
  NoReports none;
  simulated::clear_calls();
  OwnedStream stream;
  cudaStreamSynchronize(stream);
  cudaStreamSynchronize(stream);
  CHECK(simulated::calls("cudaStreamSynchronize") == 2);
  CHECK(simulated::calls("cudaDeviceSynchronize") == 0);
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclSuccess);
  CHECK(simulated::calls("ncclGroupStart") == 1);
  CHECK(simulated::calls("ncclGroupEnd") == 1);
}
