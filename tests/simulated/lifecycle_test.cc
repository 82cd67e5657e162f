// Non-blocking communicators, abort, revoke, split and shrink (NCCL User Guide, "Creating a
// communicator with options", "Error handling and communicator abort", "Fault Tolerance";
// NCCL API, "ncclCommSplit", "ncclCommShrink", "ncclCommRevoke").

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <dirent.h>
#include <stdlib.h>

#include "tests/simulated/fixture.h"
#include "tests/simulated/own_symbols.h"

using namespace comm;
using namespace comm::testing;

namespace {

ncclResult_t settle(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    REQUIRE(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
    std::this_thread::yield();
  }
  return state;
}

ncclComm_t init_non_blocking(const ncclUniqueId& id, int size, int rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRankConfig(&comm, size, id, rank, &config) == ncclInProgress);
  REQUIRE(comm != nullptr);
  return comm;
}

void sum_ranks(ncclComm_t comm, cudaStream_t stream, int mine, int expected) {
  Buffer<int> data({mine}, stream);
  CHECK(ncclAllReduce(data.get(), data.get(), 1, ncclInt, ncclSum, comm, stream) == ncclSuccess);
  CHECK(data.take(stream)[0] == expected);
}

}  // namespace

TEST_CASE("the symbols are the simulation's") {
  CHECK(is_simulated(ncclCommSplit));
}

TEST_CASE("non-blocking: in progress first, then success; operations too") {
  Watchdog watchdog("non-blocking");
  NoReports none;
  for (unsigned seed = 1; seed <= 5; ++seed) {
    simulated::set_seed(seed);
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    on_threads(2, [&](int rank) {
      ncclComm_t comm = init_non_blocking(id, 2, rank);
      CHECK(settle(comm) == ncclSuccess);
      {
        OwnedStream stream;
        Buffer<int> data({1}, stream);
        for (int i = 0; i < 3; ++i) {
          const ncclResult_t result =
              ncclAllReduce(data.get(), data.get(), 1, ncclInt, ncclSum, comm, stream);
          CHECK((result == ncclInProgress || result == ncclSuccess));
          CHECK(settle(comm) == ncclSuccess);
        }
        CHECK(data.take(stream)[0] == 8);
      }
      const ncclResult_t finalized = ncclCommFinalize(comm);
      CHECK((finalized == ncclInProgress || finalized == ncclSuccess));
      CHECK(settle(comm) == ncclSuccess);
      CHECK(ncclCommDestroy(comm) == ncclSuccess);
    });
  }
}

TEST_CASE("a call while in progress is refused and kills the communicator (trap 3)") {
  Watchdog watchdog("in progress");
  NoReports none;
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclComm_t comm = init_non_blocking(id, 2, 0);  // Rank 1 never comes.
  int count = 0;
  CHECK(ncclCommCount(comm, &count) == ncclInvalidArgument);
  CHECK(settle(comm) == ncclInvalidArgument);
  CHECK(ncclCommAbort(comm) == ncclSuccess);
  CHECK(simulated::take_reports().size() == 1);
}

TEST_CASE("an init that waits for a peer can be aborted (trap 15)") {
  Watchdog watchdog("abort of init");
  NoReports none;
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclComm_t comm = init_non_blocking(id, 2, 0);
  ncclResult_t state{};
  ncclCommGetAsyncError(comm, &state);
  CHECK(state == ncclInProgress);
  CHECK(ncclCommAbort(comm) == ncclSuccess);
}

TEST_CASE("an abort ends an operation that waits for a dead peer") {
  Watchdog watchdog("abort");
  NoReports none;
  simulated::inject({.call = "ncclAllReduce", .rank = 1, .action = simulated::FaultAction::vanish});
  simulated::Settings settings = simulated::settings();
  settings.connect_lazily = false;
  simulated::set_settings(settings);
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  on_threads(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    REQUIRE(ncclCommInitRank(&comm, 2, id, rank) == ncclSuccess);
    OwnedStream stream;
    int* data = nullptr;
    cudaMalloc(reinterpret_cast<void**>(&data), sizeof(int));
    CHECK(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comm, stream) == ncclSuccess);
    if (rank == 0) CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
    ncclResult_t state{};
    CHECK(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
    CHECK(state == ncclSuccess);  // Trap 36: nobody says that the peer is dead.
    CHECK(ncclCommAbort(comm) == ncclSuccess);
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(cudaFree(data) == cudaSuccess);
  });
  settings.connect_lazily = true;
  simulated::set_settings(settings);
}

TEST_CASE(
    "split: by color, ordered by key, then by old rank; no color, no communicator (trap 18)") {
  Watchdog watchdog("split");
  NoReports none;
  with_ranks(4, [](Rank r) {
    const int color = r.rank == 3 ? NCCL_SPLIT_NOCOLOR : 0;
    ncclComm_t child = r.comm;
    CHECK(ncclCommSplit(r.comm, color, -r.rank, &child, nullptr) == ncclSuccess);
    if (r.rank == 3) {
      CHECK(child == nullptr);
      return;
    }
    int rank = -1;
    int size = 0;
    CHECK(ncclCommUserRank(child, &rank) == ncclSuccess);
    CHECK(ncclCommCount(child, &size) == ncclSuccess);
    CHECK(rank == 2 - r.rank);
    CHECK(size == 3);
    sum_ranks(child, r.stream, rank, 3);
    CHECK(ncclCommDestroy(child) == ncclSuccess);
  });
}

TEST_CASE(
    "non-blocking split: success at once, and the handle later; the parent is polled (trap 4)") {
  Watchdog watchdog("non-blocking split");
  NoReports none;
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  on_threads(2, [&](int rank) {
    ncclComm_t comm = init_non_blocking(id, 2, rank);
    CHECK(settle(comm) == ncclSuccess);
    ncclComm_t child = comm;
    CHECK(ncclCommSplit(comm, 0, rank, &child, nullptr) == ncclSuccess);
    CHECK(child != comm);
    CHECK(settle(comm) == ncclSuccess);
    REQUIRE(child != nullptr);
    CHECK(settle(child) == ncclSuccess);
    CHECK(ncclCommDestroy(child) == ncclSuccess);
    CHECK(ncclCommDestroy(comm) == ncclSuccess);
  });
}

TEST_CASE("shrink: the survivors, after an abort of what hangs; the list is sorted (trap 17)") {
  Watchdog watchdog("shrink");
  NoReports none;
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  on_threads(4, [&](int rank) {
    ncclComm_t comm = nullptr;
    REQUIRE(ncclCommInitRank(&comm, 4, id, rank) == ncclSuccess);
    {
      OwnedStream stream;
      sum_ranks(comm, stream, 1, 4);
      Buffer<int> data(1);
      if (rank == 0 || rank == 2) {
        CHECK(ncclAllReduce(data.get(), data.get(), 1, ncclInt, ncclSum, comm, stream) ==
              ncclSuccess);
        int excluded[] = {3, 1};
        ncclComm_t child = nullptr;
        CHECK(ncclCommShrink(comm, excluded, 2, &child, nullptr, NCCL_SHRINK_ABORT) == ncclSuccess);
        CHECK(excluded[0] == 1);
        REQUIRE(child != nullptr);
        int size = 0;
        ncclCommCount(child, &size);
        CHECK(size == 2);
        sum_ranks(child, stream, rank, 2);
        CHECK(ncclCommDestroy(child) == ncclSuccess);
      }
      int none_excluded = 0;
      ncclComm_t child = nullptr;
      CHECK(ncclCommShrink(comm, &none_excluded, 0, &child, nullptr, NCCL_SHRINK_ABORT) ==
            ncclInvalidArgument);
    }
    CHECK(ncclCommAbort(comm) == ncclSuccess);
  });
}

TEST_CASE("after a revoke: no operations, no finalize, no second revoke; split works (trap 13)") {
  Watchdog watchdog("revoke");
  NoReports none;
  with_ranks(2, [](Rank r) {
    CHECK(ncclCommRevoke(r.comm, 1) == ncclInvalidArgument);
    CHECK(ncclCommRevoke(r.comm, NCCL_REVOKE_DEFAULT) == ncclSuccess);
    Buffer<int> data(1);
    CHECK(ncclAllReduce(data.get(), data.get(), 1, ncclInt, ncclSum, r.comm, r.stream) ==
          ncclInvalidUsage);
    CHECK(ncclCommFinalize(r.comm) == ncclInvalidArgument);
    CHECK(ncclCommRevoke(r.comm, NCCL_REVOKE_DEFAULT) == ncclInvalidArgument);
    ncclComm_t child = nullptr;
    CHECK(ncclCommSplit(r.comm, 0, 0, &child, nullptr) == ncclSuccess);
    sum_ranks(child, r.stream, 1, 2);
    CHECK(ncclCommDestroy(child) == ncclSuccess);
  });
}

TEST_CASE("several unique ids: the same communicator (scalable init, trap 20)") {
  Watchdog watchdog("scalable init");
  NoReports none;
  ncclUniqueId ids[2];
  ncclGetUniqueId(&ids[0]);
  ncclGetUniqueId(&ids[1]);
  on_threads(3, [&](int rank) {
    ncclComm_t comm = nullptr;
    CHECK(ncclCommInitRankScalable(&comm, 3, rank, 2, ids, nullptr) == ncclSuccess);
    {
      OwnedStream stream;
      sum_ranks(comm, stream, 1, 3);
    }
    CHECK(ncclCommDestroy(comm) == ncclSuccess);
  });
}

TEST_CASE("one thread for all devices: groups, as the guide shows") {
  Watchdog watchdog("one thread");
  NoReports none;
  ncclComm_t comms[2];
  REQUIRE(ncclCommInitAll(comms, 2, nullptr) == ncclSuccess);
  {
    cudaSetDevice(0);
    OwnedStream first;
    Buffer<int> a({1}, first);
    cudaSetDevice(1);
    OwnedStream second;
    Buffer<int> b({2}, second);
    ncclGroupStart();
    ncclAllReduce(a.get(), a.get(), 1, ncclInt, ncclSum, comms[0], first);
    ncclAllReduce(b.get(), b.get(), 1, ncclInt, ncclSum, comms[1], second);
    CHECK(ncclGroupEnd() == ncclSuccess);
    CHECK(a.take(first)[0] == 3);
    CHECK(b.take(second)[0] == 3);
    cudaSetDevice(0);
  }
  ncclGroupStart();
  for (ncclComm_t comm : comms) ncclCommDestroy(comm);
  CHECK(ncclGroupEnd() == ncclSuccess);
}

TEST_CASE(
    "windows: collective, filled on success, left alone for memory that is not NCCL's (trap 34)") {
  Watchdog watchdog("windows");
  NoReports none;
  with_ranks(2, [](Rank r) {
    void* symmetric = nullptr;
    CHECK(ncclMemAlloc(&symmetric, 4096) == ncclSuccess);
    ncclWindow_t window = nullptr;
    CHECK(ncclCommWindowRegister(r.comm, symmetric, 4096, &window, NCCL_WIN_COLL_SYMMETRIC) ==
          ncclSuccess);
    CHECK(window != nullptr);
    CHECK(ncclCommWindowDeregister(r.comm, window) == ncclSuccess);
    CHECK(ncclMemFree(symmetric) == ncclSuccess);
    Buffer<char> plain(4096);
    window = nullptr;
    CHECK(ncclCommWindowRegister(r.comm, plain.get(), 4096, &window, NCCL_WIN_DEFAULT) ==
          ncclSuccess);
    CHECK(window == nullptr);
  });
}

TEST_CASE("an aborted init leaves no thread and no descriptor behind") {
  Watchdog watchdog("nothing left");
  NoReports none;
  const auto entries = [](const char* folder) {
    int count = 0;
    DIR* open_folder = opendir(folder);
    REQUIRE(open_folder != nullptr);
    while (readdir(open_folder) != nullptr) ++count;
    closedir(open_folder);
    return count;
  };
  const auto abort_one = [] {
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    CHECK(ncclCommAbort(init_non_blocking(id, 2, 0)) == ncclSuccess);
  };
  abort_one();  // The process's own listener is made once.
  const int threads = entries("/proc/self/task");
  const int descriptors = entries("/proc/self/fd");
  for (int i = 0; i < 20; ++i) abort_one();
  while (entries("/proc/self/task") > threads || entries("/proc/self/fd") > descriptors) {
    std::this_thread::yield();
  }
}

TEST_CASE("NCCL_COMM_BLOCKING overrides the configuration (trap 6)") {
  Watchdog watchdog("NCCL_COMM_BLOCKING");
  NoReports none;
  setenv("NCCL_COMM_BLOCKING", "0", 1);
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclInProgress);
  unsetenv("NCCL_COMM_BLOCKING");
  CHECK(settle(comm) == ncclSuccess);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("blocking and non-blocking communicators may not be made in one group (trap 9)") {
  Watchdog watchdog("mixed group");
  NoReports none;
  ncclUniqueId ids[2];
  ncclGetUniqueId(&ids[0]);
  ncclGetUniqueId(&ids[1]);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t blocking = nullptr;
  ncclComm_t other = nullptr;
  ncclGroupStart();
  ncclCommInitRank(&blocking, 1, ids[0], 0);
  ncclCommInitRankConfig(&other, 1, ids[1], 0, &config);
  CHECK(ncclGroupEnd() == ncclInvalidArgument);
  CHECK(blocking == nullptr);
  CHECK(ncclCommAbort(other) == ncclSuccess);  // Trap 5: a failed init leaves a handle to abort.
}

TEST_CASE("an abort ends the family that shares resources (trap 16)") {
  Watchdog watchdog("family");
  NoReports none;
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  on_threads(2, [&](int rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.splitShare = 1;
    ncclComm_t parent = nullptr;
    REQUIRE(ncclCommInitRankConfig(&parent, 2, id, rank, &config) == ncclSuccess);
    ncclComm_t child = nullptr;
    REQUIRE(ncclCommSplit(parent, 0, rank, &child, nullptr) == ncclSuccess);
    OwnedStream stream;
    int* data = nullptr;
    cudaMalloc(reinterpret_cast<void**>(&data), sizeof(int));
    sum_ranks(child, stream, 1, 2);
    if (rank == 0) ncclAllReduce(data, data, 1, ncclInt, ncclSum, child, stream);
    CHECK(ncclCommAbort(parent) == ncclSuccess);
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);  // The child's operation ended too.
    CHECK(ncclCommAbort(child) == ncclSuccess);
    CHECK(cudaFree(data) == cudaSuccess);
  });
}
