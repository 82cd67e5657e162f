// Ranks that leave a Nccl job in good order, and those that go on; over the simulation.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/nccl/world.h"

namespace {

using comm::Communicator;
using comm::Nccl;
using comm::NcclConfig;
using comm::StatusCode;
using comm::testing::DeviceBuffer;
using comm::testing::has;
using comm::testing::NoReports;
using comm::testing::on_ranks;
using comm::testing::run_nccl;
using comm::testing::said;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// For what takes well under a second; the deadline of operations is a minute.
constexpr seconds kSoon{20};

class Stopwatch {
 public:
  bool is_soon() const { return std::chrono::steady_clock::now() - began_ < kSoon; }

 private:
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

void let_go(Communicator<Nccl>& c) {
  CHECK(said(c.abort()) == "ok");
  CHECK(cudaStreamSynchronize(c.backend().stream()) == cudaSuccess);
}

}  // namespace

TEST_CASE("a rank that leaves while others still need it is named by all of them, at once") {
  for (const int leaver : {2, 1, 0}) {
    for (const bool enqueues : {false, true}) {
      CAPTURE(leaver);
      CAPTURE(enqueues);
      const NoReports none;
      const std::string name = "rank " + std::to_string(leaver) + " has left after ";
      run_nccl(3, [&](Communicator<Nccl>& c) {
        DeviceBuffer<float> buffer(std::vector<float>(100, 1.0F));
        CHECK(said(c.all_reduce(buffer.span())) == "ok");
        CHECK(said(c.synchronize()) == "ok");
        if (c.rank() == leaver) return;
        const Stopwatch watch;
        comm::Status s =
            enqueues ? c.all_reduce(buffer.span(), comm::ReduceOp::max) : comm::Status();
        if (s.ok()) s = enqueues ? c.synchronize() : c.barrier_wait();
        CHECK_MESSAGE(has(said(s), name.c_str()), said(s));
        CHECK(watch.is_soon());
        CHECK(has(said(c.all_reduce(buffer.span())), name.c_str()));
        let_go(c);
      });
    }
  }
}

TEST_CASE("a rank that leaves is found although nobody asks comm: the work that needs it ends") {
  const NoReports none;
  run_nccl(3, [&](Communicator<Nccl>& c) {
    DeviceBuffer<float> buffer(std::vector<float>(100, 1.0F));
    CHECK(said(c.barrier_wait()) == "ok");
    if (c.rank() == 1) return;
    const Stopwatch watch;
    CHECK(said(c.all_reduce(buffer.span(), comm::ReduceOp::max)) == "ok");
    CHECK(cudaStreamSynchronize(c.backend().stream()) == cudaSuccess);
    CHECK(watch.is_soon());
    const comm::Status refused = c.all_reduce(buffer.span());
    CHECK(refused.code() == StatusCode::unhealthy);
    CHECK_MESSAGE(has(said(refused), "rank 1 has left after "), said(refused));
    let_go(c);
  });
}

TEST_CASE("of several that left the one that missed something is named") {
  const NoReports none;
  std::atomic<bool> has_left{false};
  on_ranks(3, [&](int, NcclConfig config) {
    auto made = Communicator<Nccl>::create(config);
    CHECK(said(made) == "ok");
    if (!made.ok()) return;
    std::optional<Communicator<Nccl>> c(std::move(*made));
    DeviceBuffer<float> buffer(std::vector<float>(100, 1.0F));
    CHECK(said(c->barrier_wait()) == "ok");
    if (c->rank() == 2) {
      while (!has_left) std::this_thread::yield();
      return;
    }
    // The root of a broadcast needs nobody to be done with it.
    if (c->rank() == 1) {
      CHECK(said(c->broadcast_async(buffer.span(), 1)) == "ok");
      c.reset();
      has_left = true;
      return;
    }
    CHECK(said(c->broadcast_async(buffer.span(), 1)) == "ok");
    const Stopwatch watch;
    while (c->is_healthy() && watch.is_soon()) std::this_thread::yield();
    const std::string refused = said(c->barrier());
    CHECK_MESSAGE(has(refused, "rank 2 has left after "), refused);
    let_go(*c);
  });
}

TEST_CASE("ranks that leave after the same operations poison nobody, whatever else was exchanged") {
  const NoReports none;
  std::atomic<int> turn{0};
  const int order[] = {3, 1, 2, 0};
  run_nccl(4, [&](Communicator<Nccl>& c) {
    DeviceBuffer<int> mine({c.rank()}), theirs({-1});
    CHECK(said(c.all_reduce(mine.span())) == "ok");
    CHECK(said(c.barrier_wait()) == "ok");
    if (c.rank() == order[0]) CHECK(said(c.backend().close()) == "ok");
    if (c.rank() == order[0]) ++turn;
    while (turn < 1) std::this_thread::yield();
    // Messages among those that are still there, more on some than on others.
    if (c.rank() == 0 || c.rank() == 2)
      for (int i = 0; i < 5; ++i)
        CHECK(said(c.send_recv(mine.span(), 2 - c.rank(), theirs.span(), 2 - c.rank())) == "ok");
    const auto until =
        std::chrono::steady_clock::now() + milliseconds(350);  // Two looks of watchdogs or three.
    while (c.rank() != order[0] && std::chrono::steady_clock::now() < until) {
      CHECK(c.is_healthy());
      std::this_thread::sleep_for(milliseconds(5));
    }
    if (c.rank() == order[0]) return;
    CHECK(said(c.synchronize()) == "ok");
    while (order[turn] != c.rank()) std::this_thread::yield();
    CHECK(said(c.backend().close()) == "ok");
    ++turn;
  });
}

TEST_CASE(
    "the end of a job: everybody leaves when it likes, with work queued, and it is no error") {
  const NoReports none;
  for (int round = 0; round < 20; ++round) {
    run_nccl(3, [&](Communicator<Nccl>& c) {
      DeviceBuffer<float> buffer(std::vector<float>(100, 1.0F));
      for (int i = 0; i < 3; ++i) CHECK(said(c.all_reduce(buffer.span())) == "ok");
      if (c.rank() == round % 3) CHECK(said(c.synchronize()) == "ok");
      if (c.rank() == (round + 1) % 3) std::this_thread::sleep_for(milliseconds(5));
      CHECK(said(c.backend().close()) == "ok");
    });
  }
}

TEST_CASE("a slow wait is said with the name of the rank that is missing, and nothing fails") {
  const NoReports none;
  std::mutex mutex;
  std::string lines;
  std::atomic<int> warned{0};
  run_nccl(
      4,
      [&](NcclConfig& config) {
        config.slow_wait = milliseconds(100);
        config.log_levels = *comm::LogLevels::parse("nccl=warn");
        const int rank = config.launch->rank;
        config.log = [&, rank](std::string_view line) {
          if (line.find("is not complete after") == std::string_view::npos) return;
          const std::lock_guard<std::mutex> guard(mutex);
          lines += std::string(line) + "\n";
          if (rank == 0) ++warned;
        };
      },
      [&](Communicator<Nccl>& c) {
        CHECK(said(c.barrier_wait()) == "ok");
        if (c.rank() == 2) {
          DeviceBuffer<float> buffer({1});
          while (warned < 2) std::this_thread::yield();  // The second time, too.
        }
        CHECK(said(c.barrier_wait()) == "ok");
        CHECK(c.is_healthy());
      });
  CHECK_MESSAGE(has(lines, "barrier_wait is not complete after "), lines);
  CHECK_MESSAGE(has(lines, "rank 2 has submitted 2 (last barrier_wait), rank "), lines);
}
