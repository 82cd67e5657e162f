// What errors say, to the letter: operation, rank, world, GPU, epoch, number, whose result it is, and
// which peer.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <nccl.h>

#include <atomic>
#include <barrier>
#include <initializer_list>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "comm/backends/nccl/roll_call.h"
#include "tests/nccl/world.h"

namespace {

using comm::Communicator;
using comm::Nccl;
using comm::NcclConfig;
using comm::ReduceOp;
using comm::testing::DeviceBuffer;
using comm::testing::has;
using comm::testing::NoReports;
using comm::testing::on_ranks;
using comm::testing::run_nccl;
using comm::testing::said;
using comm::testing::short_waits;
using std::chrono::milliseconds;

/// "on rank 1 of 2 (GPU 1, epoch 0, seq 2): "
std::string at(const Communicator<Nccl>& c, int seq) {
  const std::string rank = std::to_string(c.rank());
  return "on rank " + rank + " of " + std::to_string(c.world_size()) + " (GPU " + rank +
         ", epoch " + std::to_string(c.epoch()) + ", seq " + std::to_string(seq) + "): ";
}

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) text += part;
  return text;
}

/// NCCL's last message, which another test may have left, is not looked at.
std::string without_last_message(std::string text) {
  const std::size_t begin = text.find("; NCCL's last message");
  if (begin != std::string::npos) text.erase(begin, text.find("; NCCL_DEBUG", begin) - begin);
  return text;
}

const std::string kRefused = "refused, the communicator is unhealthy. First cause: ";
const std::string kAgain = ". Call attempt_reconnect on every rank";

void let_go(Communicator<Nccl>& c) {
  CHECK(said(c.abort()) == "ok");
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

}  // namespace

TEST_CASE("errors: a call of NCCL's that fails, what is refused after it, and after a reconnect") {
  const NoReports none;
  run_nccl(1, [](Communicator<Nccl>& c) {
    DeviceBuffer<int> x(std::vector<int>(10, 1));
    for (const int epoch : {0, 1}) {
      CHECK(static_cast<int>(c.epoch()) == epoch);
      comm::simulated::inject({.call = "ncclReduce", .value = ncclSystemError});
      const std::string cause = "reduce " + at(c, 2) +
                                "ncclReduce failed: ncclSystemError (2); NCCL_DEBUG=WARN makes "
                                "NCCL say more";
      const comm::Status s = c.reduce(x.span(), x.span(), ReduceOp::sum, 0).status().copy();
      CHECK(s.native_code() == ncclSystemError);
      CHECK(without_last_message(said(s)) == "nccl: " + cause);
      const comm::Status refused = c.all_reduce(x.span());
      CHECK(refused.native_code() == ncclSystemError);
      CHECK(without_last_message(said(refused)) ==
            joined({"unhealthy: all_reduce ", at(c, 2), kRefused, cause, kAgain}));
      CHECK(said(c.attempt_reconnect()) == "ok");
    }
  });
}

TEST_CASE("errors: messages name the peer, and the peer learns whose call failed") {
  const NoReports none;
  std::barrier both(2);
  run_nccl(2, [&](Communicator<Nccl>& c) {
    DeviceBuffer<int> x({1, 2}), y({0, 0});
    const std::string failed =
        " failed: ncclInternalError (3); NCCL_DEBUG=WARN makes NCCL say more";
    const struct {
      const char* call;
      const char* operation;
      const char* peers;
    } cases[] = {{"ncclSend", "send_to", "ncclSend to rank 1"},
                 {"ncclRecv", "recv_from", "ncclRecv from rank 1"},
                 {"ncclSend", "send_recv", "a grouped send and receive to rank 1 from rank 1"}};
    for (const auto& test : cases) {
      both.arrive_and_wait();
      if (c.rank() == 0) {
        comm::simulated::inject({.call = test.call, .rank = 0, .value = ncclInternalError});
        const std::string operation = test.operation;
        const comm::Status s = operation == "send_to" ? c.send_to(x.span(), 1)
                               : operation == "recv_from"
                                   ? c.recv_from(y.span(), 1)
                                   : c.send_recv(x.span(), 1, y.span(), 1).status().copy();
        CHECK(without_last_message(said(s)) ==
              joined({"nccl: ", operation, " ", at(c, 2), test.peers, failed}));
      } else {
        while (c.is_healthy()) std::this_thread::yield();
        const std::string told = without_last_message(said(c.barrier()));
        CHECK_MESSAGE(has(told, ("unhealthy: barrier " + at(c, 1) + kRefused).c_str()), told);
        CHECK_MESSAGE(has(told, (std::string(": rank 0 reported a failure: ") + test.operation +
                                 " on rank 0 of 2 (GPU 0, epoch ")
                                    .c_str()),
                      told);
        CHECK_MESSAGE(has(told, (", seq 2): " + std::string(test.peers) + failed).c_str()), told);
      }
      CHECK(said(c.attempt_reconnect()) == "ok");
    }
  });
}

TEST_CASE("errors: a call of CUDA's that fails") {
  const NoReports none;
  run_nccl(1, [](Communicator<Nccl>& c) {
    comm::simulated::inject({.call = "cudaEventRecord", .value = cudaErrorLaunchFailure});
    const comm::Status s = c.synchronize();
    CHECK(s.native_code() == cudaErrorLaunchFailure);
    CHECK(said(s) == "cuda: synchronize " + at(c, 1) +
                         "cudaEventRecord failed: " + cudaGetErrorString(cudaErrorLaunchFailure) +
                         " (" + cudaGetErrorName(cudaErrorLaunchFailure) + ")");
    let_go(c);
  });
}

TEST_CASE("errors: a deadline that passes says who has not come and what it did last") {
  const NoReports none;
  std::atomic<bool> told{false};
  run_nccl(2, short_waits, [&](Communicator<Nccl>& c) {
    if (c.rank() == 0) {
      const std::string cause = "barrier_wait " + at(c, 2) +
                                "not complete after 300 ms; the last operation submitted on this "
                                "GPU was barrier_wait. A rank may be missing, or may have called "
                                "another operation. rank 1 has submitted 1, rank 0 has submitted "
                                "2 (last barrier_wait)";
      CHECK(said(c.barrier_wait()) == "timeout: " + cause);
      CHECK(said(c.barrier()) == "unhealthy: barrier " + at(c, 2) + kRefused + cause + kAgain);
      told = true;
    }
    while (!told) std::this_thread::yield();
    let_go(c);
  });
}

TEST_CASE("errors: a rank that left, and one that closed with work of all ranks under way") {
  const NoReports none;
  std::atomic<bool> gone{false};
  run_nccl(2, [&](Communicator<Nccl>& c) {
    if (c.rank() == 1) return;
    CHECK(said(c.barrier_wait()) ==
          "peer_lost: barrier_wait " + at(c, 2) +
              "rank 1 has left after 1 operations of all ranks; this rank has submitted 2, so the "
              "last cannot complete");
    let_go(c);
  });
  run_nccl(2, short_waits, [&](Communicator<Nccl>& c) {
    if (c.rank() == 1) {
      CHECK(said(c.barrier()) == "ok");
      CHECK(said(c.backend().close()) ==
            "timeout: abort " + at(c, 2) +
                "what is queued was not done within 500 ms, or a rank that it needs is gone, so "
                "the communicator was aborted");
      gone = true;
      return;
    }
    while (!gone) std::this_thread::yield();
    while (c.is_healthy()) std::this_thread::yield();
    const std::string text = said(c.barrier());
    CHECK_MESSAGE(has(text,
                      "rank 1 reported a failure: abort on rank 1 of 2 (GPU 1, epoch 0, seq "
                      "2): closed while the last operation that it submitted, barrier, was "
                      "under way"),
                  text);
    let_go(c);
  });
}

TEST_CASE("errors: what fails while a communicator is made, divided or reconnected says so") {
  const NoReports none;
  std::atomic<int> done{0};
  on_ranks(1, [&](int, const NcclConfig& config) {
    comm::simulated::inject({.call = "ncclCommInitRankConfig", .value = ncclInvalidUsage});
    CHECK(without_last_message(said(Communicator<Nccl>::create(config))) ==
          "nccl: create on rank 0 of 1 (GPU 0, epoch 0, seq 0): ncclCommInitRankConfig failed: "
          "ncclInvalidUsage (5); NCCL_DEBUG=WARN makes NCCL say more");
  });
  run_nccl(1, [](Communicator<Nccl>& c) {
    comm::simulated::inject(
        {.call = "cudaStreamCreateWithPriority", .value = cudaErrorMemoryAllocation});
    const std::string failed = said(c.split(0, 0));
    CHECK_MESSAGE(has(failed, ("cuda: split " + at(c, 0) + "cudaStreamCreateWithPriority").c_str()),
                  failed);
    CHECK(said(c.attempt_reconnect()) == "ok");
  });
  run_nccl(
      2, [](NcclConfig& config) { config.reconnect_timeout = milliseconds(500); },
      [&](Communicator<Nccl>& c) {
        if (c.rank() == 0) {
          const std::string alone = said(c.attempt_reconnect());
          CHECK_MESSAGE(has(alone, (": attempt_reconnect " + at(c, 1)).c_str()), alone);
          CHECK_MESSAGE(has(alone, "missing rank 1"), alone);
          ++done;
        }
        while (done == 0) std::this_thread::yield();
      });
}

TEST_CASE(
    "the roll: who is behind is named first, who calls something else then, who stood still last") {
  using comm::detail::nccl::compare;
  using Answer = comm::detail::nccl::RollCall::Answer;
  const auto reduce = static_cast<std::uint32_t>(comm::Operation::all_reduce);
  const auto gather = static_cast<std::uint32_t>(comm::Operation::all_gather);
  const Answer same{7, reduce, 0, 0, 0}, late{7, reduce, 0, 1700, 0}, behind{6, reduce, 0, 0, 0},
      other{7, gather, 0, 0, 0};
  const Answer nobody[] = {same, same, same};
  CHECK(compare(nobody, 3).empty());
  const Answer slept[] = {same, same, late};
  CHECK(compare(slept, 3) ==
        "rank 2 stood still for 1700 ms, stopped or without a core; nobody is behind now");
  const Answer two[] = {late, same, late};
  CHECK(has(compare(two, 3), "rank 0 stood still for 1700 ms, rank 2 stood still for 1700 ms"));
  const Answer missing[] = {late, behind, same};
  CHECK(has(compare(missing, 3), "rank 1 has submitted 6"));
  CHECK_FALSE(has(compare(missing, 3), "stood still"));
  const Answer mixed[] = {late, same, other};
  CHECK(has(compare(mixed, 3), "rank 2 has submitted 7 (last all_gather)"));
  CHECK_FALSE(has(compare(mixed, 3), "stood still"));
}

TEST_CASE("a watchdog that wakes up much too late stood still; that counts for a while") {
  comm::detail::nccl::Standstill standstill;
  const auto now = std::chrono::steady_clock::now();
  CHECK(standstill.within(std::chrono::hours(1)) == 0);
  standstill.woke(now - milliseconds(100'000), milliseconds(100'000));
  CHECK(standstill.within(std::chrono::hours(1)) == 0);
  standstill.woke(now - milliseconds(1'600), milliseconds(100));
  CHECK(standstill.within(std::chrono::hours(1)) >= 1'500);
  CHECK(standstill.within(milliseconds(-1)) == 0);
}
