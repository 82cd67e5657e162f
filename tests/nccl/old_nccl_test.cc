// What comm does by itself where NCCL is too old to do it: the backend is compiled here once more, with a
// header and a library of 2.26.5.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <nccl.h>

#include <barrier>
#include <cstdlib>
#include <string>
#include <vector>

#include "comm/testing/simulated/calls.h"
#include "tests/nccl/old_backend.inc"
#include "tests/nccl/world.h"

namespace {

using comm::Communicator;
using comm::Nccl;
using comm::NcclConfig;
using comm::NcclMode;
using comm::simulated::calls;
using comm::simulated::FaultAction;
using comm::testing::DeviceBuffer;
using comm::testing::NoReports;
using comm::testing::run_nccl;
using comm::testing::said;
using std::chrono::milliseconds;

/// "ok", or what went wrong with a sum over all ranks.
std::string sums(Communicator<Nccl>& c) {
  DeviceBuffer<int> one(std::vector<int>(5000, 1));
  comm::Status s = c.all_reduce(one.span());
  if (s.ok()) s = c.synchronize();
  if (!s.ok()) return said(s);
  return one.read() == std::vector<int>(5000, c.world_size()) ? "ok" : "a wrong sum";
}

}  // namespace

TEST_CASE("old NCCL: shrink makes a new communicator, while all is well and after a failure") {
  for (const int gone : {3, 1}) {
    for (const bool fails : {false, true}) {
      for (const bool is_kept : {false, true}) {
        for (const NcclMode mode : {NcclMode::blocking, NcclMode::non_blocking}) {
          CAPTURE(gone);
          CAPTURE(fails);
          CAPTURE(is_kept);
          comm::simulated::clear_calls();
          std::barrier all(4);
          run_nccl(
              4,
              [&](NcclConfig& config) {
                config.abort_on_failure = !is_kept;
                config.mode = mode;
                config.collective_timeout = milliseconds(10'000);
              },
              [&](Communicator<Nccl>& c) {
                CHECK(sums(c) == "ok");
                // Outlives what the failed operation does with it.
                DeviceBuffer<int> buffer(std::vector<int>(5000, 1));
                all.arrive_and_wait();
                if (fails) {
                  if (c.rank() == gone)
                    comm::simulated::inject({.call = "ncclAllReduce",
                                             .rank = gone,
                                             .action = FaultAction::async_error,
                                             .value = ncclRemoteError});
                  comm::Status failed = c.all_reduce(buffer.span(), comm::ReduceOp::max);
                  if (failed.ok()) failed = c.synchronize();
                  CHECK_FALSE(failed.ok());
                }
                if (c.rank() != gone) {
                  auto rest = c.shrink({gone});
                  CHECK(said(rest) == "ok");
                  if (rest.ok()) {
                    CHECK(rest->world_size() == 3);
                    CHECK(rest->rank() == c.rank() - (c.rank() > gone ? 1 : 0));
                    CHECK(sums(*rest) == "ok");
                    auto half = rest->split(rest->rank() % 2, 0);
                    CHECK(said(half) == "ok");
                    if (half.ok()) CHECK(sums(*half) == "ok");
                  }
                }
                all.arrive_and_wait();
                // Excluding a rank of a healthy communicator leaves that as it was.
                if (!fails) CHECK(sums(c) == "ok");
                all.arrive_and_wait();
                CHECK(said(c.abort()) == "ok");
              });
          CHECK(calls("ncclCommShrink") == 0);
          (void)comm::simulated::take_reports();  // What the failure brings about.
        }
      }
    }
  }
}

TEST_CASE("old NCCL: shrink names rank 0 as the one that a new communicator needs") {
  std::barrier all(3);
  run_nccl(
      3, [](NcclConfig& config) { config.collective_timeout = milliseconds(500); },
      [&](Communicator<Nccl>& c) {
        CHECK(sums(c) == "ok");
        all.arrive_and_wait();
        if (c.rank() == 0) return;
        // It leaves, and with it the ranks' only way to find together.
        while (c.barrier_wait().ok()) {
        }
        auto rest = c.shrink({0});
        CHECK_FALSE(rest.ok());
        const std::string why = said(rest);
        CHECK_MESSAGE(comm::testing::has(why, "if rank 0 is among those that are gone"), why);
        CHECK(said(c.abort()) == "ok");
      });
  (void)comm::simulated::take_reports();
}

TEST_CASE("old NCCL: what newer ones have calls for goes by messages, symmetric memory by itself") {
  const NoReports none;
  comm::simulated::clear_calls();
  run_nccl(3, [](Communicator<Nccl>& c) {
    const int me = c.rank();
    DeviceBuffer<int> mine({10 * me, 10 * me + 1, 10 * me + 2}), all({0, 0, 0});
    CHECK(said(c.all_to_all(mine.span(), all.span())) == "ok");
    CHECK(said(c.synchronize()) == "ok");
    CHECK(all.read() == std::vector<int>{me, 10 + me, 20 + me});
    CHECK(said(c.gather(mine.span().first(1), all.span(), 1)) == "ok");
    CHECK(said(c.scatter(mine.span(), all.span().first(1), 2)) == "ok");
    CHECK(said(c.synchronize()) == "ok");
    CHECK(all.read()[0] == 20 + me);
    auto memory = c.symmetric_alloc(100);
    CHECK(said(memory) == "ok");
    if (memory.ok()) CHECK(said(c.symmetric_free(*memory)) == "ok");
  });
  for (const char* call : {"ncclAlltoAll", "ncclGather", "ncclScatter", "ncclCommWindowRegister"})
    CHECK(calls(call) == 0);
}

int main(int argc, char** argv) {
  ::setenv("COMM_SIM_NCCL_VERSION", "22605", 1);  // Before anybody asks.
  return doctest::Context(argc, argv).run();
}
