#pragma once

/// Worlds of Host for the contract suite: ranks as threads that meet through the rendezvous.

#include <chrono>
#include <utility>
#include <vector>

#include "comm/backends/host.h"
#include "comm/testing/contract_suite.h"
#include "comm/testing/run_ranks.h"

/// `B` is Host, or a decorator around it.
template <class B>
struct HostWorld : comm::testing::HostMemory {
  using Backend = B;
  static std::vector<int> sizes() { return {1, 2, 3, 5}; }

  template <class Body>
  static void run(int ranks, Body body, comm::Timeout collective = {}) {
    auto configure = [&](comm::LaunchConfig launch) {
      comm::Host::Config config;
      config.launch = std::move(launch);
      constexpr std::int64_t kMinute = 60'000'000'000;
      config.collective_timeout = std::chrono::duration_cast<std::chrono::milliseconds>(
          std::chrono::nanoseconds(collective.nanoseconds_or(kMinute)));
      config.slot_bytes = 16 * 1024;  // So that what the suite moves takes many steps.
      config.log = [](std::string_view) {};
      return config;
    };
    comm::testing::run_ranks<B>(ranks, configure, body);
  }
};
