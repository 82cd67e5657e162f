// What waiting costs on the Nccl backend, on the simulated GPU: the wait of the host is comm's own,
// and what it waits for ends when this program says so. See wait_bench.h.
//
//     bazel run -c opt //bench:wait_bench_nccl [-- SECONDS_IDLE]

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <optional>

#include "bench/wait_bench.h"
#include "comm/backends/nccl.h"
#include "comm/communicator.h"
#include "comm/rendezvous/listener.h"

namespace {

using comm::Communicator;
using comm::DeviceSpan;
using comm::Nccl;

std::vector<Communicator<Nccl>> make_two() {
  auto listener = comm::Listener::bind("127.0.0.1", 0);
  if (!listener.ok()) std::exit(1);
  std::vector<std::optional<Communicator<Nccl>>> made(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      comm::NcclConfig config;
      config.launch = comm::LaunchConfig::local(rank, 2, (*listener)->port());
      if (rank == 0) config.launch->listener = *listener;
      config.device = rank;
      config.log = [](std::string_view) {};
      auto c = Communicator<Nccl>::create(config);
      if (c.ok()) made[static_cast<std::size_t>(rank)].emplace(std::move(*c));
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<Communicator<Nccl>> two;
  for (auto& c : made) {
    if (!c.has_value()) std::exit(1);
    two.push_back(std::move(*c));
  }
  return two;
}

/// The work that `synchronize` waits for: asleep, so that the waiting alone takes processor time.
std::atomic<std::uint32_t> gate{0};
void pass_gate(void*) {
  gate.wait(0);
  gate.store(0);
}

}  // namespace

int main(int argc, char** argv) {
  const double idle_s = argc > 1 ? std::atof(argv[1]) : 20;
  std::vector<Communicator<Nccl>> two = make_two();
  std::uint32_t* word[2] = {};
  for (int rank = 0; rank < 2; ++rank) {
    (void)cudaSetDevice(rank);
    if (cudaMalloc(reinterpret_cast<void**>(&word[rank]), 4) != cudaSuccess) return 1;
  }
  cudaStream_t stream = nullptr;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) return 1;
  std::atomic<int> flag{0};
  comm::bench::heading();
  const auto report = [&](const char* name, const std::function<comm::bench::Pair()>& make) {
    comm::bench::report(name, make, idle_s);
  };
  report("`synchronize`", [&] {
    return comm::bench::Pair{[&](int) {
                               (void)cudaSetDevice(1);
                               (void)cudaLaunchHostFunc(stream, pass_gate, nullptr);
                               two[1].synchronize(stream).ignore();
                             },
                             [&](int) {
                               gate.store(1);
                               gate.notify_one();
                             }};
  });
  report("`recv_command_u32`", [&] {
    return comm::bench::Pair{
        [&](int) { two[1].recv_command_u32(DeviceSpan(word[1], 1), 0).ignore(); },
        [&](int) { two[0].broadcast(DeviceSpan(word[0], 1), 0).ignore(); }};
  });
  report("asleep in the kernel", [&] { return flag = 0, comm::bench::asleep(flag); });
  report("a plain spin", [&] { return flag = 0, comm::bench::plain_spin(flag); });
  report("a plain sleep of 1 ms", [&] { return flag = 0, comm::bench::plain_sleep(flag); });

  two[0].abort().ignore();
  two[1].barrier_wait().ignore();  // The roll is called.
  const DeviceSpan<std::uint32_t> one(word[1], 1);
  comm::bench::report_refusal("`all_reduce`", [&] { two[1].all_reduce(one).ignore(); });
  comm::bench::report_refusal("`barrier_wait`", [&] { two[1].barrier_wait().ignore(); });
}
