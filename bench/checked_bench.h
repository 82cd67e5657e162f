#pragma once

/// What comparing calls costs: the time of a call with `Checked` around the backend less that of the
/// call alone, ranks as threads of one process, the host waiting for nothing else.

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "comm/communicator.h"
#include "comm/launch/launch_config.h"
#include "comm/rendezvous/listener.h"

namespace comm::bench {

/// Calls `body(communicator)` on a thread for each rank; `config` makes what rank, launch stand for.
template <class B, class MakeConfig, class Body>
void on_ranks(int ranks, MakeConfig config, Body body) {
  auto listener = Listener::bind("127.0.0.1", 0);
  if (!listener.ok()) std::exit(1);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      LaunchConfig launch = LaunchConfig::local(rank, ranks, (*listener)->port());
      if (rank == 0) launch.listener = *listener;
      auto made = Communicator<B>::create(config(rank, std::move(launch)));
      if (!made.ok()) {
        std::fprintf(stderr, "%s\n", made.message());
        std::exit(1);
      }
      body(*made);
    });
  for (std::thread& thread : threads) thread.join();
}

/// The time of one `call`, in microseconds: the median of batches of 50, on rank 0. `settle` ends a
/// batch.
template <class B, class MakeConfig, class Call, class Settle>
double time_of(int ranks, MakeConfig config, Call call, Settle settle) {
  constexpr int kBatches = 21;
  constexpr int kCalls = 50;
  std::vector<double> us;
  std::barrier step(ranks);
  on_ranks<B>(ranks, config, [&](Communicator<B>& c) {
    for (int batch = 0; batch < kBatches; ++batch) {
      step.arrive_and_wait();
      const auto began = std::chrono::steady_clock::now();
      for (int i = 0; i < kCalls; ++i)
        if (Status s = call(c); !s.ok()) {
          std::fprintf(stderr, "%s\n", s.message());
          std::exit(1);
        }
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - began;
      if (c.rank() == 0) us.push_back(took.count() / kCalls);
      settle(c);
    }
  });
  std::sort(us.begin(), us.end());
  return us[us.size() / 2];
}

inline void print_row(const char* backend, const char* call, int ranks, double bare,
                      double checked) {
  std::printf("| %s | %s | %d | %.1f | %.1f | %.1f |\n", backend, call, ranks, bare, checked,
              checked - bare);
  std::fflush(stdout);
}

inline void print_heading() {
  std::printf(
      "| backend | call | ranks | bare, us | checked, us | more, us "
      "|\n|---|---|---|---|---|---|\n");
}

}  // namespace comm::bench
