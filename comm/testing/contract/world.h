#pragma once

/// A *world* tells the contract suite how to run ranks of one backend and where its memory is. It is
/// a type with static members:
///
///     struct MyWorld : comm::testing::HostMemory {          // or Buffer<T> and read() of its own
///       using Backend = MyBackend;
///       static std::vector<int> sizes() { return {1, 2, 3}; }
///
///       // Calls body(communicator) on each of `ranks` threads of this process; returns when all
///       // have ended. `collective` bounds operations that have no deadline of their own.
///       template <class Body>
///       static void run(int ranks, Body body, comm::Timeout collective = {});
///
///       // Optional, where the backend has less than everything:
///       static bool supports(comm::DataType, comm::ReduceOp);   // else it must say unsupported
///       static constexpr bool detects_failures = false;         // else all of promises 6 and 7
///     };
///
/// `Buffer<T>(std::vector<T>)` is memory with these values; `span()` names it; `read(span)` copies
/// it out. run_ranks.h and run_threads.h write most of `run`.

#include <doctest/doctest.h>

#include <concepts>
#include <functional>
#include <vector>

#include "comm/communicator.h"
#include "comm/testing/expect.h"
#include "comm/testing/run_threads.h"

namespace comm::testing {

template <class W>
concept ContractWorld = Backend<typename W::Backend> &&
    requires(typename W::template Buffer<float> buffer, DeviceSpan<const float> span) {
  { W::sizes() } -> std::convertible_to<std::vector<int>>;
  { buffer.span() } -> std::same_as<DeviceSpan<float>>;
  { W::template read<float>(span) } -> std::same_as<std::vector<float>>;
};

template <class W>
inline constexpr bool moves_data = W::Backend::moves_data;

template <class W>
inline constexpr bool detects_failures = moves_data<W>;
template <class W>
  requires requires {
    W::detects_failures;
  }
inline constexpr bool detects_failures<W> = W::detects_failures;

template <class W>
bool supports(DataType type, ReduceOp op) {
  if constexpr (requires { W::supports(type, op); }) return W::supports(type, op);
  return moves_data<W> || op.kind() != ReduceOp::Kind::premul_sum;
}

template <class W>
using CommunicatorOf = Communicator<typename W::Backend>;

template <class W, class T>
using BufferOf = typename W::template Buffer<T>;

/// `W::run`, instantiated for one type of body alone: it is compiled once a world, not once a case.
template <class W>
void run_world(int ranks, const std::function<void(CommunicatorOf<W>&)>& body,
               Timeout collective = {}) {
  static_assert(ContractWorld<W>);
  W::run(ranks, body, collective);
}

/// Runs `body` on every rank of a world of each size.
template <class W>
void on_every_world(const std::function<void(CommunicatorOf<W>&)>& body) {
  for (int size : W::sizes()) {
    run_world<W>(size, [&](CommunicatorOf<W>& c) {
      INFO("rank ", c.rank(), " of ", c.world_size());
      body(c);
    });
  }
}

/// As above, for what one rank alone cannot do.
template <class W>
void on_every_world_of_many(const std::function<void(CommunicatorOf<W>&)>& body) {
  on_every_world<W>([&](CommunicatorOf<W>& c) {
    if (c.world_size() > 1) body(c);
  });
}

/// Waits for what was submitted, and reads.
template <class W, class T>
std::vector<std::remove_const_t<T>> read(CommunicatorOf<W>& c, DeviceSpan<T> span) {
  expect_ok(c.synchronize());
  return W::template read<std::remove_const_t<T>>(DeviceSpan<const T>(span));
}

}  // namespace comm::testing
