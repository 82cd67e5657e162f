#pragma once

/// Every operation that moves data, as something that can be listed, run on any backend, and checked
/// against what must come of it. Values are small whole numbers, so every sum is exact in any order.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "comm/communicator.h"

namespace comm::test {

enum class Kind {
  all_reduce,
  all_reduce_max,
  all_reduce_async,
  all_reduce_deferred,
  all_gather,
  reduce_scatter,
  broadcast,
  broadcast_async,
  reduce,
  gather,
  scatter,
  all_to_all,
  all_to_all_v,
  send_recv,
  send_to_recv_from,
  group,
  barrier,
  barrier_wait,
  recv_command_u32,
};
inline constexpr int kKinds = 19;

constexpr const char* name_of(Kind kind) {
  constexpr const char* kNames[kKinds] = {"all_reduce",
                                          "all_reduce(max)",
                                          "all_reduce_async",
                                          "all_reduce_deferred",
                                          "all_gather",
                                          "reduce_scatter",
                                          "broadcast",
                                          "broadcast_async",
                                          "reduce",
                                          "gather",
                                          "scatter",
                                          "all_to_all",
                                          "all_to_all_v",
                                          "send_recv",
                                          "send_to, recv_from",
                                          "group",
                                          "barrier",
                                          "barrier_wait",
                                          "recv_command_u32"};
  return kNames[static_cast<int>(kind)];
}

/// Waits until it is done, and so cannot be captured into a graph.
constexpr bool waits(Kind kind) {
  return kind == Kind::broadcast || kind == Kind::barrier_wait || kind == Kind::recv_command_u32;
}

/// One call: what, how much, from which root, and a number that makes its values its own.
struct Task {
  Kind kind;
  std::size_t count;  ///< Elements of one rank's share.
  int root;
  int round;
};

constexpr float value(int rank, std::size_t i, int round) {
  return static_cast<float>(1 + rank * 3 + static_cast<int>(i % 17) + round % 5);
}

/// What `send` and `recv` hold before the call; each has `world * count` elements.
inline std::vector<float> input(const Task& task, int rank, int world) {
  std::vector<float> values(static_cast<std::size_t>(world) * task.count);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(rank, i, task.round);
  return values;
}

/// What `recv` begins with after the call; shorter where the operation promises no more.
inline std::vector<float> expected(const Task& task, int rank, int world) {
  const std::size_t n = task.count;
  const auto all = static_cast<std::size_t>(world) * n;
  const auto reduced = [&](std::size_t i, bool max) {
    float r = value(0, i, task.round);
    for (int other = 1; other < world; ++other) {
      const float v = value(other, i, task.round);
      r = max ? std::max(r, v) : r + v;
    }
    return r;
  };
  const auto make = [](std::size_t count, auto f) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = f(i);
    return values;
  };
  const auto from = [&](int other, std::size_t first, std::size_t count) {
    return make(count, [&](std::size_t i) { return value(other, first + i, task.round); });
  };
  const auto own = static_cast<std::size_t>(rank) * n;
  switch (task.kind) {
    case Kind::all_reduce:
    case Kind::all_reduce_async:
    case Kind::all_reduce_deferred:
    case Kind::group: return make(n, [&](std::size_t i) { return reduced(i, false); });
    case Kind::all_reduce_max: return make(n, [&](std::size_t i) { return reduced(i, true); });
    case Kind::reduce_scatter:
      return make(n, [&](std::size_t i) { return reduced(own + i, false); });
    case Kind::reduce:
      if (rank != task.root) return {};
      return make(n, [&](std::size_t i) { return reduced(i, false); });
    case Kind::gather:
      if (rank != task.root) return {};
      [[fallthrough]];
    case Kind::all_gather:
      return make(all,
                  [&](std::size_t i) { return value(static_cast<int>(i / n), i % n, task.round); });
    case Kind::broadcast:
    case Kind::broadcast_async: return from(task.root, 0, n);
    case Kind::scatter: return from(task.root, own, n);
    case Kind::all_to_all:
    case Kind::all_to_all_v:
      return make(all, [&](std::size_t i) {
        return value(static_cast<int>(i / n), own + i % n, task.round);
      });
    case Kind::send_recv: return from((rank + world - 1) % world, 0, n);
    case Kind::send_to_recv_from:
      return rank % 2 == 1 ? from(rank - 1, 0, n) : std::vector<float>();
    case Kind::recv_command_u32:
      if (rank == task.root) return {};
      return make(1, [&](std::size_t) { return value(task.root, 0, task.round); });
    case Kind::barrier:
    case Kind::barrier_wait: break;
  }
  return {};
}

template <class T>
Status status_of(Result<T> result) {
  return std::move(result).status();
}

/// Makes the call. `send` and `recv` are memory of the communicator's kind, filled with `input`.
template <class C>
Status run(C& c, const Task& task, float* send, float* recv, Stream stream, Timeout timeout = {}) {
  const std::size_t n = task.count;
  const int world = c.world_size();
  const int rank = c.rank();
  const std::size_t all = n * static_cast<std::size_t>(world);
  const DeviceSpan<float> send_n(send, n), send_all(send, all), recv_n(recv, n),
      recv_all(recv, all);
  const int next = (rank + 1) % world;
  const int before = (rank + world - 1) % world;
  switch (task.kind) {
    case Kind::all_reduce: return c.all_reduce(recv_n, ReduceOp::sum, stream);
    case Kind::all_reduce_max: return c.all_reduce(recv_n, ReduceOp::max, stream);
    case Kind::all_reduce_async: return c.all_reduce_async(recv_n, ReduceOp::sum, stream);
    case Kind::all_reduce_deferred: {
      auto ticket = c.all_reduce_deferred(recv_n, ReduceOp::sum, stream);
      return ticket.ok() ? ticket->join(stream) : std::move(ticket).status();
    }
    case Kind::all_gather: return status_of(c.all_gather(send_n, recv_all, stream));
    case Kind::reduce_scatter:
      return status_of(c.reduce_scatter(send_all, recv_n, ReduceOp::sum, stream));
    case Kind::broadcast: return c.broadcast(recv_n, task.root, stream);
    case Kind::broadcast_async: return c.broadcast_async(recv_n, task.root, stream);
    case Kind::reduce: return status_of(c.reduce(send_n, recv_n, ReduceOp::sum, task.root, stream));
    case Kind::gather: return status_of(c.gather(send_n, recv_all, task.root, stream));
    case Kind::scatter: return status_of(c.scatter(send_all, recv_n, task.root, stream));
    case Kind::all_to_all: return status_of(c.all_to_all(send_all, recv_all, stream));
    case Kind::all_to_all_v: {
      const std::vector<std::size_t> counts(static_cast<std::size_t>(world), n);
      return status_of(c.all_to_all_v(send_all, counts.data(), recv_all, counts.data(), stream));
    }
    case Kind::send_recv: return status_of(c.send_recv(send_n, next, recv_n, before, stream));
    case Kind::send_to_recv_from:
      if (rank % 2 == 1) return c.recv_from(recv_n, rank - 1, stream);
      return rank + 1 < world ? c.send_to(send_n, rank + 1, stream) : Status();
    case Kind::group: {
      auto group = c.group();
      Status s = c.all_reduce(recv_n, ReduceOp::sum, stream);
      Status ended = group.end();
      return s.ok() ? std::move(ended) : std::move(s);
    }
    case Kind::barrier: return c.barrier(stream);
    case Kind::barrier_wait: return c.barrier_wait(timeout);
    case Kind::recv_command_u32: {
      // The bits of a number are as good a command as any.
      const DeviceSpan<std::uint32_t> word(reinterpret_cast<std::uint32_t*>(recv), 1);
      return rank == task.root ? c.broadcast(word, task.root, stream)
                               : c.recv_command_u32(word, task.root, stream);
    }
  }
  return {};
}

}  // namespace comm::test
