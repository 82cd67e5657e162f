#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <nccl.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "comm/float_types.h"
#include "comm/testing/simulated/calls.h"
#include "tests/nccl/world.h"

// The numbers are those of docs/nccl.md, "NCCL's traps".

namespace {

using comm::Communicator;
using comm::Nccl;
using comm::NcclConfig;
using comm::NcclMode;
using comm::ReduceOp;
using comm::StatusCode;
using comm::simulated::FaultAction;
using comm::testing::DeviceBuffer;
using comm::testing::has;
using comm::testing::NoReports;
using comm::testing::on_ranks;
using comm::testing::run_nccl;
using comm::testing::said;
using comm::testing::short_waits;
using std::chrono::milliseconds;

void non_blocking(NcclConfig& config) {
  config.mode = NcclMode::non_blocking;
}

/// NCCL_COMM_BLOCKING for as long as it lives.
class ForcedBlocking {
 public:
  explicit ForcedBlocking(const char* value) { ::setenv("NCCL_COMM_BLOCKING", value, 1); }
  ForcedBlocking(const ForcedBlocking&) = delete;
  ForcedBlocking& operator=(const ForcedBlocking&) = delete;
  ~ForcedBlocking() { ::unsetenv("NCCL_COMM_BLOCKING"); }
};

}  // namespace

TEST_CASE("trap 1: a member that fails fails its group, and the group's end gives the cause") {
  const NoReports none;
  run_nccl(1, [](Communicator<Nccl>& c) {
    DeviceBuffer<int> buffer(std::vector<int>(10, 1));
    auto group = c.group();
    comm::simulated::inject({.call = "ncclReduce", .value = ncclSystemError});
    CHECK(said(c.all_reduce(buffer.span())) == "ok");
    const std::string failed = said(c.reduce(buffer.span(), buffer.span(), ReduceOp::sum, 0));
    CHECK(has(failed, "ncclReduce"));
    const std::string ended = said(group.end());
    CHECK_MESSAGE(ended == failed, ended);
    CHECK(c.all_reduce(buffer.span()).code() == StatusCode::unhealthy);
  });
}

TEST_CASE("trap 1: the end of a group that fails by itself is an error, not a silence") {
  const NoReports none;
  run_nccl(1, [](Communicator<Nccl>& c) {
    DeviceBuffer<int> buffer(std::vector<int>(10, 1));
    auto group = c.group();
    CHECK(said(c.all_reduce(buffer.span())) == "ok");
    comm::simulated::inject({.call = "ncclGroupEnd", .value = ncclInternalError});
    CHECK(has(said(group.end()), "ncclGroupEnd"));
    CHECK_FALSE(c.is_healthy());
  });
}

TEST_CASE("trap 3, fault 30: a call waits for the one in progress before NCCL is asked again") {
  const NoReports none;
  run_nccl(2, non_blocking, [](Communicator<Nccl>& c) {
    DeviceBuffer<int> buffer(std::vector<int>(1000, 1));
    for (int i = 0; i < 3; ++i) {
      comm::simulated::inject({.call = "ncclAllReduce",
                               .rank = c.rank(),
                               .action = FaultAction::in_progress,
                               .value = 20 + i});
      CHECK(said(c.all_reduce(buffer.span())) == "ok");
      // Recorded after the launch: a ticket's event marks the end of its own operation.
      auto ticket = c.all_reduce_deferred(buffer.span(), ReduceOp::sum);
      CHECK(said(ticket) == "ok");
      if (ticket.ok()) CHECK(said(ticket->join({})) == "ok");
    }
    CHECK(said(c.synchronize()) == "ok");
    CHECK(buffer.read() == std::vector<int>(1000, 64));
  });
}

TEST_CASE("trap 6: NCCL_COMM_BLOCKING overrides either mode, and nothing depends on it") {
  for (const char* forced : {"0", "1"}) {
    const NoReports none;
    const ForcedBlocking environment(forced);
    for (const NcclMode mode : {NcclMode::blocking, NcclMode::non_blocking}) {
      run_nccl(
          2, [&](NcclConfig& config) { config.mode = mode; },
          [](Communicator<Nccl>& c) {
            DeviceBuffer<int> buffer(std::vector<int>(100, 1));
            for (int i = 0; i < 5; ++i) CHECK(said(c.all_reduce(buffer.span())) == "ok");
            CHECK(said(c.barrier_wait()) == "ok");
            CHECK(buffer.read()[99] == 32);
          });
    }
  }
}

TEST_CASE("trap 7: NCCL's last message is quoted as one that may have another cause") {
  const NoReports none;
  run_nccl(1, [](Communicator<Nccl>& c) {
    (void)ncclCommInitAll(nullptr, 0, nullptr);  // Leaves a message, which nothing clears.
    DeviceBuffer<int> buffer(std::vector<int>(10, 1));
    comm::simulated::inject(
        {.call = "ncclAllReduce", .action = FaultAction::async_error, .value = ncclSystemError});
    comm::Status failed = c.all_reduce(buffer.span());
    if (failed.ok()) failed = c.synchronize();
    CHECK_MESSAGE(has(said(failed), "may be unrelated: ncclCommInitAll"), said(failed));
    CHECK(said(c.abort()) == "ok");
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
  });
}

TEST_CASE("trap 8: results that the library has no words for are named, or given by number") {
  const NoReports none;
  const auto failed_with = [](int result) {
    std::string failed;
    run_nccl(1, [&](Communicator<Nccl>& c) {
      DeviceBuffer<int> buffer(std::vector<int>(10, 1));
      comm::simulated::inject({.call = "ncclAllReduce", .value = result});
      const comm::Status s = c.all_reduce(buffer.span());
      CHECK(s.native_code() == result);
      failed = said(s);
    });
    return failed;
  };
  CHECK(has(failed_with(8), "ncclTimeout"));
  CHECK(has(failed_with(99), "99"));
}

TEST_CASE("trap 10: an abort inside a group closes it first, so that nothing ends inside one") {
  const NoReports none;
  run_nccl(2, short_waits, [](Communicator<Nccl>& c) {
    DeviceBuffer<int> buffer(std::vector<int>(10, 1));
    auto group = c.group();
    CHECK(said(c.all_reduce(buffer.span())) == "ok");
    CHECK(said(c.abort()) == "ok");
    CHECK_FALSE(group.end().ok());
    CHECK(c.all_reduce(buffer.span()).code() == StatusCode::unhealthy);
  });
}

TEST_CASE("trap 11: finalize, then destroy, each once, and nothing is asked of it afterwards") {
  const NoReports none;
  run_nccl(1, non_blocking, [](Communicator<Nccl>& c) {
    CHECK(said(c.barrier_wait()) == "ok");
    comm::simulated::clear_calls();
    CHECK(said(c.backend().close()) == "ok");
    CHECK(comm::simulated::calls("ncclCommFinalize") == 1);
    CHECK(comm::simulated::calls("ncclCommDestroy") == 1);
    CHECK(comm::simulated::calls("ncclCommAbort") == 0);
    comm::simulated::clear_calls();
    CHECK_FALSE(c.is_healthy());
    CHECK(said(c.backend().close()) == "ok");
    CHECK(comm::simulated::calls("ncclCommGetAsyncError") == 0);
    CHECK(comm::simulated::calls("ncclCommDestroy") == 0);
  });
}

TEST_CASE("trap 17: shrink sorts a copy of the caller's list, and works after a rank was lost") {
  const NoReports none;
  run_nccl(
      4,
      [](NcclConfig& config) {
        short_waits(config);
        config.collective_timeout = milliseconds(1000);
        config.abort_on_failure = false;
      },
      [](Communicator<Nccl>& c) {
        DeviceBuffer<int> buffer(std::vector<int>(5000, 1));
        if (c.rank() == 1 || c.rank() == 3) {
          comm::simulated::inject(
              {.call = "ncclAllReduce", .rank = c.rank(), .action = FaultAction::vanish});
          (void)c.all_reduce(buffer.span()).ok();
          CHECK(said(c.abort()) == "ok");
          CHECK(cudaDeviceSynchronize() == cudaSuccess);
          return;
        }
        comm::Status s = c.all_reduce(buffer.span());
        if (s.ok()) s = c.synchronize();
        CHECK_FALSE(s.ok());
        const int excluded[] = {3, 1};
        auto rest = c.shrink(excluded, 2);
        CHECK(said(rest) == "ok");
        CHECK(excluded[0] == 3);
        if (!rest.ok()) return;
        CHECK(rest->world_size() == 2);
        CHECK(rest->rank() == c.rank() / 2);
        DeviceBuffer<int> one({1});
        CHECK(said(rest->all_reduce(one.span())) == "ok");
        CHECK(said(rest->synchronize()) == "ok");
        CHECK(one.read()[0] == 2);
        CHECK(said(c.abort()) == "ok");
        CHECK(cudaDeviceSynchronize() == cudaSuccess);  // Before the buffer is freed.
      });
}

TEST_CASE("trap 19: after an abort NCCL is not called any more, with a null handle or another") {
  const NoReports none;
  run_nccl(1, short_waits, [](Communicator<Nccl>& c) {
    DeviceBuffer<int> buffer(std::vector<int>(10, 1));
    CHECK(said(c.abort()) == "ok");
    comm::simulated::clear_calls();
    CHECK_FALSE(c.is_healthy());
    CHECK_FALSE(c.all_reduce(buffer.span()).ok());
    CHECK(said(c.abort()) == "ok");
    CHECK_FALSE(c.synchronize().ok());
    for (const char* call : {"ncclCommAbort", "ncclCommGetAsyncError", "ncclAllReduce"})
      CHECK(comm::simulated::calls(call) == 0);
  });
}

TEST_CASE("trap 23: a lone min_ctas is refused before NCCL is asked; both reach NCCL") {
  const NoReports none;
  on_ranks(1, [](int, NcclConfig config) {
    config.min_ctas = 4;
    CHECK(has(said(Communicator<Nccl>::create(config)), "min_ctas and max_ctas"));
  });
  on_ranks(1, [](int, NcclConfig config) {
    config.min_ctas = 4;
    config.max_ctas = 8;
    CHECK(said(Communicator<Nccl>::create(config)) == "ok");
  });
}

TEST_CASE("trap 26: a message to oneself outside a group is refused before NCCL is asked") {
  const NoReports none;
  run_nccl(1, [](Communicator<Nccl>& c) {
    DeviceBuffer<int> from({7});
    DeviceBuffer<int> to({0});
    CHECK(c.send_to(from.span(), 0).code() == StatusCode::invalid_argument);
    CHECK(c.recv_from(to.span(), 0).code() == StatusCode::invalid_argument);
    CHECK(c.is_healthy());
    auto group = c.group();
    CHECK(said(c.send_to(from.span(), 0)) == "ok");
    CHECK(said(c.recv_from(to.span(), 0)) == "ok");
    CHECK(said(group.end()) == "ok");
    CHECK(said(c.synchronize()) == "ok");
    CHECK(to.read()[0] == 7);
  });
}

TEST_CASE("trap 27: fp8 is reduced from compute capability 9.0 on, and moved by any GPU") {
  const NoReports none;
  const comm::simulated::Settings before = comm::simulated::settings();
  for (const int capability : {80, 90}) {
    comm::simulated::Settings changed = before;
    changed.compute_capability = capability;
    comm::simulated::set_settings(changed);
    run_nccl(2, [&](Communicator<Nccl>& c) {
      DeviceBuffer<comm::f8e4m3> buffer(
          std::vector<comm::f8e4m3>(4, comm::f8e4m3(c.rank() == 0 ? 2.0F : 1.0F)));
      const comm::Status reduced = c.all_reduce(buffer.span(), ReduceOp::max);
      CHECK(reduced.code() == (capability < 90 ? StatusCode::unsupported : StatusCode::ok));
      CHECK(said(c.broadcast(buffer.span(), 0)) == "ok");
      CHECK(static_cast<float>(buffer.read()[3]) == 2.0F);
    });
  }
  comm::simulated::set_settings(before);
}

TEST_CASE("trap 31, fault 52: two communicators in opposite orders end by the deadline") {
  run_nccl(2, short_waits, [](Communicator<Nccl>& c) {
    auto other = c.split(0, 0);
    CHECK(said(other) == "ok");
    if (!other.ok()) return;
    DeviceBuffer<int> buffer(std::vector<int>(5000, 1));
    DeviceBuffer<int> second(std::vector<int>(5000, 1));
    Communicator<Nccl>& first_used = c.rank() == 0 ? c : *other;
    Communicator<Nccl>& then_used = c.rank() == 0 ? *other : c;
    comm::Status s = first_used.all_reduce(buffer.span(), ReduceOp::max);
    if (s.ok()) s = then_used.broadcast_async(second.span(), 0);
    if (s.ok()) s = then_used.synchronize();
    CHECK_MESSAGE(!s.ok(), "must not be complete");
    const std::string why = said(s);
    CHECK_MESSAGE((has(why, "all_reduce") || has(why, "broadcast")), why);
    // Each has called something else on the one that the ranks can compare.
    const std::string both = said(c.barrier_wait());
    CHECK_MESSAGE(has(both, "rank 0 has submitted 4 (last all_reduce)"), both);
    CHECK_MESSAGE(has(both, "rank 1 has submitted 4 (last broadcast_async)"), both);
    CHECK(said(c.abort()) == "ok");
    CHECK(said(other->abort()) == "ok");
  });
  (void)comm::simulated::take_reports();
}

TEST_CASE("trap 32: what would need an event before the group has ended is refused inside it") {
  const NoReports none;
  run_nccl(2, [](Communicator<Nccl>& c) {
    DeviceBuffer<int> buffer(std::vector<int>(100, 1));
    auto group = c.group();
    CHECK(c.all_reduce_async(buffer.span()).code() == StatusCode::invalid_argument);
    CHECK(c.all_reduce_deferred(buffer.span()).code() == StatusCode::invalid_argument);
    CHECK(said(c.barrier()) == "ok");  // Its event is recorded when the group has ended.
    CHECK(said(group.end()) == "ok");
    CHECK(said(c.barrier_wait()) == "ok");
  });
}

TEST_CASE("trap 34: a window that NCCL does not make is none, and the memory works without") {
  const NoReports none;
  for (int rank = 0; rank < 2; ++rank)
    comm::simulated::inject(
        {.call = "ncclCommWindowRegister", .rank = rank, .action = FaultAction::lose});
  run_nccl(2, [](Communicator<Nccl>& c) {
    auto buffer = c.symmetric_buffer<int>(1000);
    CHECK(said(buffer) == "ok");
    if (!buffer.ok()) return;
    CHECK(cudaMemset(buffer->span().data(), 0, 4000) == cudaSuccess);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(said(c.all_reduce(buffer->span())) == "ok");
    CHECK(said(c.synchronize()) == "ok");
  });
}
