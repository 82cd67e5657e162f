// What waiting costs on the Host backend; see wait_bench.h.
//
//     bazel run -c opt //bench:wait_bench_host [-- SECONDS_IDLE]

#include <cstdlib>
#include <optional>

#include "bench/wait_bench.h"
#include "comm/backends/host.h"
#include "comm/communicator.h"
#include "comm/rendezvous/listener.h"

namespace {

using comm::Communicator;
using comm::DeviceSpan;
using comm::Host;

std::vector<Communicator<Host>> make_two() {
  auto listener = comm::Listener::bind("127.0.0.1", 0);
  if (!listener.ok()) std::exit(1);
  std::vector<std::optional<Communicator<Host>>> made(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      Host::Config config;
      config.launch = comm::LaunchConfig::local(rank, 2, (*listener)->port());
      if (rank == 0) config.launch->listener = *listener;
      config.log = [](std::string_view) {};
      auto c = Communicator<Host>::create(config);
      if (c.ok()) made[static_cast<std::size_t>(rank)].emplace(std::move(*c));
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<Communicator<Host>> two;
  for (auto& c : made) {
    if (!c.has_value()) std::exit(1);
    two.push_back(std::move(*c));
  }
  return two;
}

}  // namespace

int main(int argc, char** argv) {
  const double idle_s = argc > 1 ? std::atof(argv[1]) : 20;
  std::vector<Communicator<Host>> two = make_two();
  std::atomic<int> flag{0};
  static std::uint32_t word[2];
  comm::bench::heading();
  const auto report = [&](const char* name, const std::function<comm::bench::Pair()>& make) {
    comm::bench::report(name, make, idle_s);
  };
  const auto send = [&](int) { two[0].broadcast(DeviceSpan(&word[0], 1), 0).ignore(); };
  report("`recv_command_u32`", [&] {
    return comm::bench::Pair{
        [&](int) { two[1].recv_command_u32(DeviceSpan(&word[1], 1), 0).ignore(); }, send};
  });
  report("`broadcast`", [&] {
    return comm::bench::Pair{[&](int) { two[1].broadcast(DeviceSpan(&word[1], 1), 0).ignore(); },
                             send};
  });
  report("`barrier_wait`", [&] {
    return comm::bench::Pair{[&](int) { two[1].barrier_wait().ignore(); },
                             [&](int) { two[0].barrier_wait().ignore(); }};
  });
  report("asleep in the kernel", [&] { return flag = 0, comm::bench::asleep(flag); });
  report("a plain spin", [&] { return flag = 0, comm::bench::plain_spin(flag); });
  report("a plain sleep of 1 ms", [&] { return flag = 0, comm::bench::plain_sleep(flag); });

  two[0].abort().ignore();
  const DeviceSpan<std::uint32_t> one(&word[1], 1);
  comm::bench::report_refusal("`all_reduce`", [&] { two[1].all_reduce(one).ignore(); });
  comm::bench::report_refusal("`barrier_wait`", [&] { two[1].barrier_wait().ignore(); });
}
