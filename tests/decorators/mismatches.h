#pragma once

/// Every way in which ranks can differ in what they call, for Checked over any backend. `odd` is true
/// on one rank, which does something else than the others. Nothing is submitted in the end, so memory
/// of the host stands for whatever memory the backend uses.

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"

namespace tests {

/// The differing call's outcome.
template <class C>
struct Mismatch {
  const char* name;
  std::function<comm::Status(C& c, float* memory, bool odd)> call;
  std::vector<const char*> sides;  ///< What the error has of both.
};

template <class T>
comm::Status status_of(comm::Result<T> result) {
  return std::move(result).status();
}

template <class C>
std::vector<Mismatch<C>> mismatches() {
  using comm::DeviceSpan, comm::ReduceOp, comm::Status;
  using Floats = DeviceSpan<float>;
  using Ints = DeviceSpan<int>;
  const auto ints = [](float* m, std::size_t n) { return Ints(reinterpret_cast<int*>(m), n); };
  return {
      {"operation",
       [](C& c, float* m, bool odd) {
         return odd ? c.broadcast_async(Floats(m, 100), 0) : c.all_reduce(Floats(m, 100));
       },
       {"all_reduce(f32, 100 elements, sum)", "broadcast(f32, 100 elements, root 0)"}},
      {"type",
       [ints](C& c, float* m, bool odd) {
         return odd ? c.all_reduce(ints(m, 100)) : c.all_reduce(Floats(m, 100));
       },
       {"all_reduce(f32, 100 elements, sum)", "all_reduce(i32, 100 elements, sum)"}},
      {"count",
       [](C& c, float* m, bool odd) { return c.all_reduce(Floats(m, odd ? 101 : 100)); },
       {"all_reduce(f32, 100 elements, sum)", "all_reduce(f32, 101 elements, sum)"}},
      {"a count of zero",
       [](C& c, float* m, bool odd) { return c.all_reduce(Floats(m, odd ? 0 : 1)); },
       {"all_reduce(f32, 0 elements, sum)", "all_reduce(f32, 1 elements, sum)"}},
      {"reduction",
       [](C& c, float* m, bool odd) {
         return c.all_reduce(Floats(m, 10), odd ? ReduceOp::max : ReduceOp::sum);
       },
       {"10 elements, sum)", "10 elements, max)"}},
      {"root",
       [](C& c, float* m, bool odd) { return c.broadcast_async(Floats(m, 10), odd ? 1 : 0); },
       {"10 elements, root 0)", "10 elements, root 1)"}},
      {"order",
       [](C& c, float* m, bool odd) {
         return odd ? c.barrier() : c.all_reduce_async(Floats(m, 10));
       },
       {"all_reduce(f32, 10 elements, sum)", "barrier()"}},
      {"group",
       [](C& c, float* m, bool odd) {
         if (!odd) return c.all_reduce(Floats(m, 10));
         auto group = c.group();
         return c.all_reduce(Floats(m, 10));
       },
       {"sum) in no group", "sum) as call 1 of a group"}},
      {"place in a group",
       [](C& c, float* m, bool odd) {
         auto group = c.group();
         if (Status s = c.all_reduce(Floats(m, 0)); !s.ok()) return s;
         if (odd) {
           if (Status s = group.end(); !s.ok()) return s;
           auto another = c.group();
           return c.all_reduce(Floats(m, 0));
         }
         return c.all_reduce(Floats(m, 0));
       },
       {"group_end()", "all_reduce(f32, 0 elements, sum)"}},
      {"order of registrations",
       [](C& c, float* m, bool odd) {
         auto first = c.register_buffer(Floats(m, odd ? 16 : 8));
         if (!first.ok()) return std::move(first).status();
         auto second = c.register_buffer(Floats(m + 512, odd ? 8 : 16));
         if (!second.ok()) return std::move(second).status();
         Status s = c.all_reduce(Floats(m, 10));
         c.deregister_buffer(*first).ignore();
         c.deregister_buffer(*second).ignore();
         return s;
       },
       {"sum) after 2 registrations (digest "}},
      {"counts of all_to_all_v",
       [](C& c, float* m, bool odd) {
         const auto n = static_cast<std::size_t>(c.world_size());
         std::vector<std::size_t> send(n, 2), recv(n, 2);
         if (odd) send[0] = 3;
         const std::size_t sent = 2 * n + (odd ? 1 : 0);
         return status_of(
             c.all_to_all_v(Floats(m, sent), send.data(), Floats(m + 512, 2 * n), recv.data()));
       },
       {"sends 3 elements to rank 0, which expects 2"}},
      {"symmetric memory",
       [](C& c, float*, bool odd) { return status_of(c.symmetric_alloc(odd ? 64 : 128)); },
       {"symmetric_alloc(64 bytes)", "symmetric_alloc(128 bytes)"}},
      {"split",
       [](C& c, float*, bool odd) { return odd ? c.barrier() : status_of(c.split(0, 0)); },
       {"split()", "barrier()"}},
      {"others of the collectives",
       [](C& c, float* m, bool odd) {
         const auto n = static_cast<std::size_t>(c.world_size());
         const Floats one(m, 4), all(m + 512, 4 * n);
         if (odd) return status_of(c.all_gather(one, all));
         return status_of(c.gather(one, all, 0));
       },
       {"gather(f32, 4 elements, root 0)", "all_gather(f32, 4 elements)"}},
  };
}

}  // namespace tests
