// Ranks as processes, and what the survivors see when one is killed (NCCL User Guide, "Fault
// Tolerance": abort on every surviving rank; within a host a death may never be reported).

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "tests/simulated/fixture.h"
#include "tests/simulated/own_symbols.h"

using namespace comm;
using namespace comm::testing;

namespace {

// Runs each rank in a process of its own; what `body` returns is the exit status.
class Processes {
 public:
  Processes(int size, const std::function<int(int rank, const ncclUniqueId&)>& body) {
    ncclUniqueId id;
    REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
    for (int rank = 0; rank < size; ++rank) {
      const pid_t pid = fork();
      REQUIRE(pid >= 0);
      if (pid == 0) {
        alarm(60);
        cudaSetDevice(rank);
        _exit(body(rank, id));
      }
      pids_.push_back(pid);
    }
  }
  ~Processes() {
    for (pid_t pid : pids_) {
      if (pid == 0) continue;
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  // Its exit status, or -signal.
  int wait(int rank) {
    int status = 0;
    pid_t& pid = pids_[static_cast<std::size_t>(rank)];
    REQUIRE(waitpid(pid, &status, 0) == pid);
    pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  std::vector<pid_t> pids_;
};

// Device memory and a stream without doctest, which is the parent's.
struct Bench {
  cudaStream_t stream = nullptr;
  int* data = nullptr;

  Bench() {
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaMalloc(reinterpret_cast<void**>(&data), 1024 * sizeof(int));
  }

  int sum(ncclComm_t comm, int mine) {
    std::vector<int> values(1024, mine);
    cudaMemcpyAsync(data, values.data(), 1024 * sizeof(int), cudaMemcpyHostToDevice, stream);
    if (ncclAllReduce(data, data, 1024, ncclInt, ncclSum, comm, stream) != ncclSuccess) return -1;
    cudaMemcpyAsync(values.data(), data, 1024 * sizeof(int), cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    return values[1023];
  }
};

}  // namespace

TEST_CASE("the symbols are the simulation's") {
  CHECK(is_simulated(ncclCommInitRank));
}

TEST_CASE("processes reduce, gather and send to one another") {
  Watchdog watchdog("processes");
  Processes ranks(3, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 3, id, rank) != ncclSuccess) return 1;
    Bench bench;
    for (int i = 0; i < 10; ++i) {
      if (bench.sum(comm, rank + i) != 3 + 3 * i) return 2;
    }
    const int next = (rank + 1) % 3;
    const int before = (rank + 2) % 3;
    ncclGroupStart();
    ncclSend(bench.data, 1, ncclInt, next, comm, bench.stream);
    ncclRecv(bench.data + 1, 1, ncclInt, before, comm, bench.stream);
    if (ncclGroupEnd() != ncclSuccess) return 3;
    if (cudaStreamSynchronize(bench.stream) != cudaSuccess) return 4;
    if (ncclCommDestroy(comm) != ncclSuccess) return 5;
    return simulated::reports().empty() ? 0 : 6;
  });
  for (int rank = 0; rank < 3; ++rank) CHECK(ranks.wait(rank) == 0);
}

TEST_CASE("a killed peer: silence by default, an abort ends the wait, and the rest can shrink") {
  Watchdog watchdog("killed peer");
  Processes ranks(3, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 3, id, rank) != ncclSuccess) return 1;
    Bench bench;
    if (bench.sum(comm, 1) != 3) return 2;
    if (rank == 0)
      simulated::inject({.call = "ncclAllReduce", .action = simulated::FaultAction::kill});
    if (ncclAllReduce(bench.data, bench.data, 1024, ncclInt, ncclSum, comm, bench.stream) !=
        ncclSuccess) {
      return 3;
    }
    for (int i = 0; i < 200; ++i) {
      if (cudaStreamQuery(bench.stream) != cudaErrorNotReady) return 4;
      ncclResult_t state{};
      ncclCommGetAsyncError(comm, &state);
      if (state != ncclSuccess) return 5;
    }
    int excluded = 0;
    ncclComm_t rest = nullptr;
    if (ncclCommShrink(comm, &excluded, 1, &rest, nullptr, NCCL_SHRINK_ABORT) != ncclSuccess) {
      return 6;
    }
    if (ncclCommAbort(comm) != ncclSuccess) return 7;
    if (bench.sum(rest, 5) != 10) return 8;
    return ncclCommDestroy(rest) == ncclSuccess ? 0 : 9;
  });
  CHECK(ranks.wait(0) == -SIGKILL);
  CHECK(ranks.wait(1) == 0);
  CHECK(ranks.wait(2) == 0);
}

TEST_CASE("a killed peer shows as a remote error where that is asked for") {
  Watchdog watchdog("remote error");
  Processes ranks(2, [](int rank, const ncclUniqueId& id) {
    simulated::Settings settings = simulated::settings();
    settings.peer_death_is_an_error = true;
    simulated::set_settings(settings);
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return 1;
    Bench bench;
    if (bench.sum(comm, 1) != 2) return 2;
    if (rank == 1) kill(getpid(), SIGKILL);
    ncclResult_t state = ncclSuccess;
    while (state == ncclSuccess) {
      if (ncclCommGetAsyncError(comm, &state) != ncclSuccess) return 3;
    }
    if (state != ncclRemoteError) return 4;
    return ncclCommAbort(comm) == ncclSuccess ? 0 : 5;
  });
  CHECK(ranks.wait(1) == -SIGKILL);
  CHECK(ranks.wait(0) == 0);
}

TEST_CASE("a mismatch is reported by both processes, each with both sides") {
  Watchdog watchdog("mismatch");
  Processes ranks(2, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return 1;
    Bench bench;
    const std::size_t count = rank == 0 ? 10 : 20;
    ncclAllReduce(bench.data, bench.data, count, ncclInt, ncclSum, comm, bench.stream);
    while (simulated::reports().empty()) std::this_thread::yield();
    const std::string text = simulated::reports()[0].text;
    if (text.find("count 10") == std::string::npos) return 2;
    if (text.find("count 20") == std::string::npos) return 3;
    return ncclCommAbort(comm) == ncclSuccess ? 0 : 4;
  });
  CHECK(ranks.wait(0) == 0);
  CHECK(ranks.wait(1) == 0);
}

TEST_CASE("ranks with different versions of NCCL are refused, all of them") {
  Watchdog watchdog("versions");
  Processes ranks(2, [](int rank, const ncclUniqueId& id) {
    if (rank == 1) setenv("COMM_SIM_NCCL_VERSION", "22703", 1);
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 2, id, rank) != ncclInvalidUsage) return 1;
    return std::string(ncclGetLastError(nullptr)).find("22703") == std::string::npos ? 2 : 0;
  });
  CHECK(ranks.wait(0) == 0);
  CHECK(ranks.wait(1) == 0);
}
