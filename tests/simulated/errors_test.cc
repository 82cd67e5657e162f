// Wrong use, what it answers and what is reported (NCCL User Guide, "Group Calls", "Error handling
// and communicator abort"; NCCL API, "Communicator Creation and Management Functions").

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <string>

#include "tests/simulated/fixture.h"
#include "tests/simulated/own_symbols.h"

using namespace comm;
using namespace comm::testing;
using simulated::Violation;

namespace {

// Two ranks that abort at the end: what they do leaves them unusable.
void with_doomed_ranks(const std::function<void(Rank)>& body, int size = 2) {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  on_threads(size, [&](int rank) {
    ncclComm_t comm = nullptr;
    REQUIRE(ncclCommInitRank(&comm, size, id, rank) == ncclSuccess);
    {
      OwnedStream stream;
      body({rank, size, comm, stream});
      CHECK(ncclCommAbort(comm) == ncclSuccess);
    }
  });
}

// The report of a mismatch between rank 0's and rank 1's call; neither completes.
std::string mismatch(const std::function<void(Rank, int*)>& call) {
  simulated::take_reports();
  with_doomed_ranks([&](Rank r) {
    Buffer<int> data(64);
    call(r, data.get());
    while (simulated::reports(Violation::mismatch).empty()) std::this_thread::yield();
    CHECK(cudaStreamQuery(r.stream) == cudaErrorNotReady);
    CHECK(ncclCommAbort(nullptr) == ncclSuccess);
    // The buffers outlive the operation: it ends with the abort, which must come first.
    CHECK(ncclCommRevoke(r.comm, NCCL_REVOKE_DEFAULT) == ncclSuccess);
    cudaStreamSynchronize(r.stream);
  });
  const auto reports = simulated::take_reports();
  REQUIRE(reports.size() == 1);
  return reports[0].text;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the symbols are the simulation's") {
  CHECK(is_simulated(ncclCommAbort));
}

TEST_CASE("a mismatch between ranks is reported with both sides, and hangs (trap 29)") {
  Watchdog watchdog("mismatch");
  NoReports none;
  std::string text = mismatch([](Rank r, int* data) {
    ncclAllReduce(data, data, r.rank == 0 ? 8 : 9, ncclInt, ncclSum, r.comm, r.stream);
  });
  CHECK(contains(text, "count 8"));
  CHECK(contains(text, "count 9"));
  CHECK(contains(text, "rank 0"));
  CHECK(contains(text, "collective 1"));

  text = mismatch([](Rank r, int* data) {
    ncclAllReduce(data, data, 8, r.rank == 0 ? ncclInt : ncclFloat, ncclSum, r.comm, r.stream);
  });
  CHECK(contains(text, "int32"));
  CHECK(contains(text, "float32"));

  text = mismatch([](Rank r, int* data) {
    ncclAllReduce(data, data, 8, ncclInt, r.rank == 0 ? ncclSum : ncclMax, r.comm, r.stream);
  });
  CHECK(contains(text, "sum"));
  CHECK(contains(text, "max"));

  text = mismatch([](Rank r, int* data) {
    ncclReduce(data, data, 8, ncclInt, ncclSum, r.rank, r.comm, r.stream);
    if (r.rank == 1) return;
    ncclAllReduce(data, data, 8, ncclInt, ncclSum, r.comm, r.stream);
  });
  CHECK(contains(text, "root 0"));
  CHECK(contains(text, "root 1"));

  text = mismatch([](Rank r, int* data) {
    if (r.rank == 0) {
      ncclAllReduce(data, data, 8, ncclInt, ncclSum, r.comm, r.stream);
    } else {
      ncclAllGather(data, data + 8, 8, ncclInt, r.comm, r.stream);
    }
  });
  CHECK(contains(text, "ncclAllReduce"));
  CHECK(contains(text, "ncclAllGather"));

  text = mismatch([](Rank r, int* data) {
    if (r.rank == 0) {
      ncclSend(data, 8, ncclInt, 1, r.comm, r.stream);
    } else {
      ncclRecv(data, 9, ncclInt, 0, r.comm, r.stream);
    }
  });
  CHECK(contains(text, "ncclSend(count 8"));
  CHECK(contains(text, "ncclRecv(count 9"));
}

TEST_CASE("one failed call fails the whole group, and nothing of it runs (trap 1)") {
  Watchdog watchdog("group error");
  NoReports none;
  with_ranks(2, [](Rank r) {
    Buffer<int> data({r.rank + 1}, r.stream);
    CHECK(ncclGroupStart() == ncclSuccess);
    CHECK(ncclAllReduce(data.get(), data.get(), 1, ncclInt, ncclSum, r.comm, r.stream) ==
          ncclSuccess);
    CHECK(ncclBroadcast(data.get(), data.get(), 1, ncclInt, 7, r.comm, r.stream) ==
          ncclInvalidArgument);
    CHECK(ncclGroupEnd() == ncclInvalidArgument);
    CHECK(data.take(r.stream)[0] == r.rank + 1);
    // A blocking communicator is usable after that.
    ncclAllReduce(data.get(), data.get(), 1, ncclInt, ncclSum, r.comm, r.stream);
    CHECK(data.take(r.stream)[0] == 3);
  });
}

TEST_CASE("groups belong to a thread, and an open one holds everything back (trap 2)") {
  Watchdog watchdog("group depth");
  NoReports none;
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
  CHECK(simulated::take_reports()[0].violation == Violation::group_depth);
  with_ranks(2, [](Rank r) {
    Buffer<int> data({1}, r.stream);
    std::thread([&] {
      cudaSetDevice(r.rank);
      ncclGroupStart();
      ncclAllReduce(data.get(), data.get(), 1, ncclInt, ncclSum, r.comm, r.stream);
    }).join();
    CHECK(data.take(r.stream)[0] == 1);
  });
  const auto reports = simulated::take_reports();
  REQUIRE(reports.size() == 2);
  CHECK(contains(reports[0].text, "1 ncclGroupStart not closed"));
}

TEST_CASE("ncclGroupSimulateEnd closes the group and starts nothing") {
  Watchdog watchdog("simulate");
  NoReports none;
  with_ranks(2, [](Rank r) {
    Buffer<int> data({1}, r.stream);
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    ncclGroupStart();
    ncclAllReduce(data.get(), data.get(), 1, ncclInt, ncclSum, r.comm, r.stream);
    CHECK(ncclGroupSimulateEnd(&info) == ncclSuccess);
    CHECK(info.estimatedTime > 0);
    CHECK(data.take(r.stream)[0] == 1);
  });
}

TEST_CASE("null handles (trap 19)") {
  CHECK(ncclCommDestroy(nullptr) == ncclSuccess);
  CHECK(ncclCommAbort(nullptr) == ncclSuccess);
  CHECK(ncclCommFinalize(nullptr) == ncclSuccess);
  CHECK(ncclCommRevoke(nullptr, 0) == ncclSuccess);
  ncclResult_t error{};
  CHECK(ncclCommGetAsyncError(nullptr, &error) == ncclInvalidArgument);
}

TEST_CASE("codes that this version does not know (trap 8)") {
  CHECK(std::string(ncclGetErrorString(static_cast<ncclResult_t>(8))) == "unknown result code");
}

TEST_CASE("use after destroy and after abort is reported, and refused (trap 11)") {
  Watchdog watchdog("use after destroy");
  NoReports none;
  ncclComm_t comm = nullptr;
  const int device = 0;
  REQUIRE(ncclCommInitAll(&comm, 1, &device) == ncclSuccess);
  CHECK(ncclCommFinalize(comm) == ncclSuccess);
  CHECK(ncclCommFinalize(comm) == ncclInvalidArgument);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
  ncclResult_t error{};
  CHECK(ncclCommGetAsyncError(comm, &error) == ncclInvalidArgument);
  CHECK(ncclCommAbort(comm) == ncclInvalidArgument);
  const auto reports = simulated::take_reports();
  REQUIRE(reports.size() == 2);
  CHECK(reports[0].violation == Violation::stale_handle);
  CHECK(contains(reports[0].text, "ncclCommDestroy"));
}

TEST_CASE("two ranks on one device are refused (trap 21)") {
  Watchdog watchdog("duplicate device");
  NoReports none;
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&id, rank] {
      ncclComm_t comm = nullptr;
      CHECK(ncclCommInitRank(&comm, 2, id, rank) == ncclInvalidUsage);
      CHECK(comm == nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(contains(ncclGetLastError(nullptr), "Duplicate GPU"));
  CHECK(simulated::take_reports().size() == 2);
}

TEST_CASE("a unique id serves one communicator (trap 20)") {
  Watchdog watchdog("used id");
  NoReports none;
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclComm_t comm = nullptr;
  REQUIRE(ncclCommInitRank(&comm, 1, id, 0) == ncclSuccess);
  ncclComm_t again = nullptr;
  CHECK(ncclCommInitRank(&again, 1, id, 0) != ncclSuccess);
  CHECK(again == nullptr);
  ncclCommDestroy(comm);
}

TEST_CASE("configurations (traps 22 and 23)") {
  Watchdog watchdog("configurations");
  NoReports none;
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclComm_t comm = nullptr;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.minCTAs = 4;
  CHECK(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclInvalidArgument);
  config.maxCTAs = 8;
  CHECK(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclSuccess);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
  ncclConfig_t zeros{};
  CHECK(ncclCommInitRankConfig(&comm, 1, id, 0, &zeros) == ncclInvalidArgument);
}

TEST_CASE("misaligned and foreign buffers break the device, as a kernel's fault does") {
  Watchdog watchdog("bad buffers");
  NoReports none;
  ncclComm_t comm = nullptr;
  const int device = 7;
  cudaSetDevice(7);
  REQUIRE(ncclCommInitAll(&comm, 1, &device) == ncclSuccess);
  {
    OwnedStream stream;
    Buffer<char> data(64);
    CHECK(ncclAllReduce(data.get() + 1, data.get() + 1, 4, ncclBfloat16, ncclSum, comm, stream) ==
          ncclSuccess);
    CHECK(cudaStreamSynchronize(stream) == cudaErrorMisalignedAddress);
    cudaDeviceReset();
    int on_host = 0;
    CHECK(ncclAllReduce(&on_host, &on_host, 1, ncclInt, ncclSum, comm, stream) == ncclSuccess);
    CHECK(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
    cudaDeviceReset();
  }
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
  cudaSetDevice(0);
  CHECK(simulated::take_reports().size() == 2);
}

TEST_CASE("leaks are counted by kind") {
  Watchdog watchdog("leaks");
  NoReports none;
  CHECK(simulated::report_leaks() == 0);
  {
    OwnedStream stream;
    OwnedEvent event;
    Buffer<int> data(1);
    ncclComm_t comm = nullptr;
    const int device = 0;
    ncclCommInitAll(&comm, 1, &device);
    void* handle = nullptr;
    ncclCommRegister(comm, data.get(), sizeof(int), &handle);
    CHECK(simulated::report_leaks() == 5);
    CHECK(ncclCommDeregister(comm, handle) == ncclSuccess);
    ncclCommDestroy(comm);
  }
  CHECK(simulated::take_reports().size() == 5);
}

TEST_CASE("two threads inside NCCL on one device are reported (trap 30)") {
  Watchdog watchdog("two threads");
  NoReports none;
  ncclUniqueId ids[2];
  for (ncclUniqueId& id : ids) REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t comms[2];
  for (int i : {0, 1}) REQUIRE(ncclCommInitRank(&comms[i], 1, ids[i], 0) == ncclSuccess);
  OwnedStream stream;
  Buffer<int> data(2);
  const int before = simulated::faults_fired();
  simulated::inject({.call = "ncclAllReduce", .action = simulated::FaultAction::block});
  std::thread blocked(
      [&] { ncclAllReduce(data.get(), data.get(), 1, ncclInt, ncclSum, comms[0], stream); });
  while (simulated::faults_fired() == before) std::this_thread::yield();
  CHECK(ncclBroadcast(data.get() + 1, data.get() + 1, 1, ncclInt, 0, comms[1], stream) ==
        ncclSuccess);
  cudaStreamSynchronize(stream);
  const auto reports = simulated::take_reports();
  REQUIRE(reports.size() == 1);
  CHECK(contains(reports[0].text, "ncclBroadcast"));
  CHECK(contains(reports[0].text, "ncclAllReduce"));
  // An abort frees the other thread, and is no third one.
  CHECK(ncclCommAbort(comms[0]) == ncclSuccess);
  blocked.join();
  CHECK(ncclCommDestroy(comms[1]) == ncclSuccess);
}
