#pragma once

/// Worlds of the example backend for the contract suite. Threads, in the memory of the process.

#include <chrono>
#include <type_traits>
#include <utility>
#include <vector>

#include "comm/testing/contract_suite.h"
#include "examples/custom_backend/loopback.h"

struct Undecorated {
  example::Loopback operator()(example::Loopback inner) const { return inner; }
};

/// `Decorate` makes the backend under test of one rank of the example.
template <class Decorate = Undecorated>
struct LoopbackWorld : comm::testing::HostMemory {
  using Backend = std::invoke_result_t<Decorate, example::Loopback>;
  static std::vector<int> sizes() { return {1, 2, 3, 5}; }

  template <class Body>
  static void run(int ranks, Body body, comm::Timeout collective = {}) {
    constexpr std::int64_t kMinute = 60'000'000'000;
    const std::chrono::nanoseconds timeout(collective.nanoseconds_or(kMinute));
    std::vector<example::Loopback> world = example::Loopback::world(ranks, timeout);
    comm::testing::run_threads(ranks, [&](int rank) {
      comm::Communicator<Backend> c(Decorate()(std::move(world[static_cast<std::size_t>(rank)])));
      body(c);
    });
  }
};
