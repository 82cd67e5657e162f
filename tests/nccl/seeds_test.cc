#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "tests/nccl/world.h"

// What an engine does, drawn from a seed: the same on all ranks, under a schedule of that seed. More
// seeds than the test takes by itself, or one: COMM_TEST_SEEDS=1-100 seeds_test.

namespace {

using comm::Communicator;
using comm::DeviceSpan;
using comm::Nccl;
using comm::NcclConfig;
using comm::NcclMode;
using comm::ReduceOp;
using comm::Status;
using comm::Stream;
using comm::simulated::FaultAction;
using comm::testing::NoReports;
using comm::testing::run_nccl;
using comm::testing::said;
using std::chrono::milliseconds;

constexpr std::size_t kSizes[] = {1, 37, 900, 20'000};  // The first three take comm's own way.
constexpr std::size_t kLargest = 20'000;

std::vector<unsigned> seeds() {
  unsigned first = 1;
  unsigned last = 12;
  if (const char* text = std::getenv("COMM_TEST_SEEDS"); text != nullptr)
    last = std::sscanf(text, "%u-%u", &first, &last) == 2 ? last : first;
  std::vector<unsigned> all;
  for (unsigned seed = first; seed <= last; ++seed) all.push_back(seed);
  return all;
}

/// One thing of the engine's to reduce: written and read on its compute stream.
class Partial {
 public:
  Partial() {
    for (void** memory : {reinterpret_cast<void**>(&device_), reinterpret_cast<void**>(&other_)})
      CHECK(cudaMalloc(memory, kLargest * sizeof(float)) == cudaSuccess);
    for (void** memory : {reinterpret_cast<void**>(&written_), reinterpret_cast<void**>(&read_)})
      CHECK(cudaMallocHost(memory, kLargest * sizeof(float)) == cudaSuccess);
  }
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;
  ~Partial() {
    for (float* memory : {device_, other_}) (void)cudaFree(memory);
    for (float* memory : {written_, read_}) (void)cudaFreeHost(memory);
  }

  void write(std::size_t count, float value, cudaStream_t compute) {
    count_ = count;
    std::fill_n(written_, count, value);
    CHECK(cudaMemcpyAsync(device_, written_, count * sizeof(float), cudaMemcpyHostToDevice,
                          compute) == cudaSuccess);
  }
  void read(const float* from, float expected, cudaStream_t compute) {
    expected_ = expected;
    CHECK(cudaMemcpyAsync(read_, from, count_ * sizeof(float), cudaMemcpyDeviceToHost, compute) ==
          cudaSuccess);
  }
  bool is_right() const {
    return std::all_of(read_, read_ + count_, [&](float value) { return value == expected_; });
  }

  DeviceSpan<float> span() const { return {device_, count_}; }
  DeviceSpan<float> other() const { return {other_, count_}; }
  float* data() const { return device_; }

 private:
  float* device_ = nullptr;
  float* other_ = nullptr;
  float* written_ = nullptr;
  float* read_ = nullptr;
  std::size_t count_ = 0;
  float expected_ = 0;
};

class Engine {
 public:
  Engine(Communicator<Nccl>& c, unsigned seed) : c_(c), random_(seed) {
    CHECK(cudaStreamCreateWithFlags(&compute_, cudaStreamNonBlocking) == cudaSuccess);
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine() { (void)cudaStreamDestroy(compute_); }

  /// The first error, or ok.
  Status steps(int count) {
    for (int i = 0; i < count; ++i) {
      Status done = step();
      if (!done.ok()) return done;
      done = c_.synchronize(Stream(compute_));
      if (!done.ok()) return done;
      for (const Partial& partial : partials_) CHECK(partial.is_right());
    }
    return {};
  }

  /// One all-reduce that has nothing to do with the steps before.
  Status once() {
    write(partials_[0], 900);
    Status done = c_.all_reduce(partials_[0].span(), ReduceOp::sum, Stream(compute_));
    if (!done.ok()) return done;
    partials_[0].read(partials_[0].data(), sum(), compute_);
    done = c_.synchronize(Stream(compute_));
    if (done.ok()) CHECK(partials_[0].is_right());
    return done;
  }

 private:
  unsigned draw(unsigned below) { return static_cast<unsigned>(random_()) % below; }
  float sum() const {
    const auto n = static_cast<float>(c_.world_size());
    return n * (n + 1) / 2;
  }
  void write(Partial& partial, std::size_t count) {
    partial.write(count, static_cast<float>(c_.rank() + 1), compute_);
  }
  void write_all() {
    for (Partial& partial : partials_) write(partial, kSizes[draw(4)]);
  }
  void read_all(float expected) {
    for (Partial& partial : partials_) partial.read(partial.data(), expected, compute_);
  }

  Status step() {
    write_all();
    switch (draw(5)) {
      case 0: return all_async();
      case 1: return all_deferred();
      case 2: return in_a_group();
      case 3: return round_the_ring();
      default: return in_a_graph();
    }
  }

  Status all_async() {
    for (Partial& partial : partials_) {
      Status done = c_.all_reduce_async(partial.span(), ReduceOp::sum, Stream(compute_));
      if (!done.ok()) return done;
    }
    read_all(sum());
    return {};
  }

  Status all_deferred() {
    std::vector<comm::NcclTicket> tickets;
    for (Partial& partial : partials_) {
      auto ticket = c_.all_reduce_deferred(partial.span(), ReduceOp::sum, Stream(compute_));
      if (!ticket.ok()) return std::move(ticket).status();
      tickets.push_back(std::move(*ticket));
    }
    std::shuffle(tickets.begin(), tickets.end(), random_);
    for (comm::NcclTicket& ticket : tickets) {
      Status joined = ticket.join(Stream(compute_));
      if (!joined.ok()) return joined;
    }
    read_all(sum());
    return {};
  }

  Status in_a_group() {
    auto group = c_.group();
    for (Partial& partial : partials_) {
      Status done = c_.all_reduce(partial.span(), ReduceOp::max, Stream(compute_));
      if (!done.ok()) return done;
    }
    Status done = group.end();
    if (!done.ok()) return done;
    read_all(static_cast<float>(c_.world_size()));
    return {};
  }

  Status round_the_ring() {
    const int n = c_.world_size();
    const int left = (c_.rank() + n - 1) % n;
    for (Partial& partial : partials_) {
      auto moved = c_.send_recv(partial.span(), (c_.rank() + 1) % n, partial.other(), left,
                                Stream(compute_));
      if (!moved.ok()) return std::move(moved).status();
      partial.read(partial.other().data(), static_cast<float>(left + 1), compute_);
    }
    return c_.barrier(Stream(compute_));
  }

  Status in_a_graph() {
    CHECK(cudaStreamBeginCapture(compute_, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    Status captured;
    for (Partial& partial : partials_) {
      if (captured.ok())
        captured = draw(2) == 0
                       ? c_.all_reduce(partial.span(), ReduceOp::sum, Stream(compute_))
                       : c_.all_reduce_async(partial.span(), ReduceOp::sum, Stream(compute_));
    }
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(compute_, &graph);
    Status launched;
    if (captured.ok()) {
      CHECK(ended == cudaSuccess);
      CHECK(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
      CHECK(cudaGraphLaunch(executable, compute_) == cudaSuccess);
      read_all(sum());
      launched = c_.synchronize(Stream(compute_));
      CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);
    }
    if (ended == cudaSuccess) CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    return captured.ok() ? std::move(launched) : std::move(captured);
  }

  Communicator<Nccl>& c_;
  std::mt19937 random_;
  cudaStream_t compute_ = nullptr;
  std::array<Partial, 3> partials_;
};

int world_of(unsigned seed) {
  constexpr int kWorlds[] = {2, 3, 4, 8};
  return kWorlds[seed % 4];
}

NcclMode mode_of(unsigned seed) {
  return seed / 4 % 2 == 0 ? NcclMode::blocking : NcclMode::non_blocking;
}

/// Something that goes wrong on one rank, some time.
comm::simulated::Fault draw_fault(unsigned seed, int world) {
  std::mt19937 random(seed + 1000);
  const auto draw = [&](unsigned below) { return static_cast<unsigned>(random()) % below; };
  constexpr const char* kCalls[] = {"ncclAllReduce", "ncclSend", "ncclGroupEnd", "cudaEventRecord",
                                    "cudaStreamWaitEvent"};
  comm::simulated::Fault fault;
  fault.call = kCalls[draw(5)];
  fault.nth = 1 + static_cast<int>(draw(8));
  fault.rank = static_cast<int>(draw(static_cast<unsigned>(world)));
  const bool is_nccl = fault.call[0] == 'n' && fault.call != "ncclGroupEnd";
  constexpr FaultAction kActions[] = {FaultAction::fail, FaultAction::delay,
                                      FaultAction::async_error, FaultAction::never_finish};
  fault.action = kActions[draw(is_nccl ? 4 : 1)];
  fault.value = fault.action == FaultAction::delay ? 20 : is_nccl || fault.call[0] == 'n' ? 2 : 999;
  if (fault.call == "ncclGroupEnd") fault.rank = -1;
  return fault;
}

}  // namespace

TEST_CASE("an engine's steps are right under every schedule") {
  for (const unsigned seed : seeds()) {
    CAPTURE(seed);
    const NoReports none;
    comm::simulated::set_seed(seed);
    run_nccl(
        world_of(seed), [&](NcclConfig& config) { config.mode = mode_of(seed); },
        [&](Communicator<Nccl>& c) {
          Engine engine(c, seed);
          const std::string done = said(engine.steps(6));
          CHECK_MESSAGE(done == "ok", "seed " << seed << ": " << done);
        });
  }
}

TEST_CASE("after a fault every rank has its steps right or an error, and all reconnect") {
  for (const unsigned seed : seeds()) {
    CAPTURE(seed);
    const NoReports none;
    comm::simulated::set_seed(seed);
    const int world = world_of(seed);
    std::barrier all_ranks(world);
    run_nccl(
        world,
        [&](NcclConfig& config) {
          config.mode = mode_of(seed);
          config.collective_timeout = milliseconds(1000);
        },
        [&](Communicator<Nccl>& c) {
          Engine engine(c, seed);
          CHECK(said(c.barrier_wait()) == "ok");
          all_ranks.arrive_and_wait();
          if (c.rank() == 0) comm::simulated::inject(draw_fault(seed, world));
          all_ranks.arrive_and_wait();
          Status done = engine.steps(6);
          if (done.ok()) done = c.barrier_wait();
          if (done.ok() && c.is_healthy()) return;
          const std::string again = said(c.attempt_reconnect());
          CHECK_MESSAGE(again == "ok", "seed " << seed << ": " << again);
          const std::string right = said(engine.once());
          CHECK_MESSAGE(right == "ok", "seed " << seed << ": " << right);
        });
    comm::simulated::clear_faults();
  }
}
