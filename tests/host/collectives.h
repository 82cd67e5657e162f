#pragma once

/// Every collective against the plain reference; bits are compared, not values within a tolerance.
/// One element type at a time, so that tests of a few types each compile side by side.

#include "tests/host/ranks.h"
#include "tests/host/reference.h"

namespace collectives {

using comm::DeviceSpan;
using ranks::Failures;
using ranks::HostCommunicator;
using reference::contribution;
using reference::same_bits;

template <class T>
struct TypeName {
  static std::string get() { return comm::to_string(comm::element_type<T>); }
};

/// One collective's outcome, in words where it is not the expected one.
struct Check {
  HostCommunicator& c;
  Failures& failures;
  std::string what;

  template <class T>
  void same(const std::vector<T>& got, const std::vector<T>& expected, const char* name,
            std::size_t count) const {
    if (same_bits(got.data(), expected.data(), expected.size())) return;
    std::size_t i = 0;
    while (i < expected.size() && same_bits(&got[i], &expected[i], 1)) ++i;
    failures.add(std::string(name) + what + " rank " + std::to_string(c.rank()) + " of " +
                 std::to_string(c.world_size()) + " count " + std::to_string(count) +
                 ": first wrong at " + std::to_string(i));
  }
  void ok(const comm::Status& s, const char* name) const {
    if (!s.ok()) failures.add(std::string(name) + what + ": " + s.message());
  }
  template <class T>
  void ok(const comm::Result<T>& r, const char* name) const {
    ok(r.status(), name);
  }
};

template <class T>
std::vector<T> joined(int size, std::size_t n, std::size_t from, std::size_t of) {
  std::vector<T> all;
  for (int r = 0; r < size; ++r) {
    const std::vector<T> v = contribution<T>(r, of);
    all.insert(all.end(), v.begin() + static_cast<std::ptrdiff_t>(from),
               v.begin() + static_cast<std::ptrdiff_t>(from + n));
  }
  return all;
}

template <class T>
void reductions(HostCommunicator& c, Failures& failures, std::size_t n) {
  const int size = c.world_size();
  const auto world = static_cast<std::size_t>(size);
  for (const auto kind : reference::kKinds) {
    const comm::ReduceOp op = reference::op_of(kind, c.rank());
    const Check check{c, failures, "(" + TypeName<T>::get() + ", " + to_string(op) + ")"};
    std::vector<T> expected(n * world);
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] = reference::reduced<T>(kind, size, i);
    const std::vector<T> first(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(n));
    const std::vector<T> own = contribution<T>(c.rank(), n);

    std::vector<T> recv(n);
    check.ok(c.all_reduce(DeviceSpan(own), DeviceSpan(recv), op), "all_reduce");
    check.same(recv, first, "all_reduce", n);
    std::vector<T> in_place = own;
    check.ok(c.all_reduce(DeviceSpan(in_place), op), "all_reduce in place");
    check.same(in_place, first, "all_reduce in place", n);

    const int root = static_cast<int>(n) % size;
    std::vector<T> at_root(c.rank() == root ? n : 0);
    check.ok(c.reduce(DeviceSpan(own), DeviceSpan(at_root), op, root), "reduce");
    if (c.rank() == root) check.same(at_root, first, "reduce", n);
    in_place = own;
    check.ok(c.reduce(DeviceSpan(in_place), DeviceSpan(in_place), op, root), "reduce in place");
    check.same(in_place, c.rank() == root ? first : own, "reduce in place", n);

    std::vector<T> blocks = contribution<T>(c.rank(), n * world);
    const std::size_t mine = static_cast<std::size_t>(c.rank()) * n;
    const std::vector<T> share(expected.begin() + static_cast<std::ptrdiff_t>(mine),
                               expected.begin() + static_cast<std::ptrdiff_t>(mine + n));
    check.ok(c.reduce_scatter(DeviceSpan(std::as_const(blocks)), DeviceSpan(recv), op),
             "reduce_scatter");
    check.same(recv, share, "reduce_scatter", n);
    const DeviceSpan<T> whole(blocks);
    check.ok(c.reduce_scatter(whole, whole.subspan(mine, n), op), "reduce_scatter in place");
    std::copy_n(blocks.begin() + static_cast<std::ptrdiff_t>(mine), n, recv.begin());
    check.same(recv, share, "reduce_scatter in place", n);
  }
}

template <class T>
void moves(HostCommunicator& c, Failures& failures, std::size_t n) {
  const Check check{c, failures, "(" + TypeName<T>::get() + ")"};
  const int size = c.world_size();
  const auto world = static_cast<std::size_t>(size);
  const auto rank = static_cast<std::size_t>(c.rank());
  const int root = static_cast<int>(n + 1) % size;
  const std::vector<T> own = contribution<T>(c.rank(), n);
  const std::vector<T> everything = joined<T>(size, n, 0, n);
  const DeviceSpan<const T> send(own);

  std::vector<T> recv(n * world);
  check.ok(c.all_gather(send, DeviceSpan(recv)), "all_gather");
  check.same(recv, everything, "all_gather", n);
  recv.assign(n * world, T());
  std::copy(own.begin(), own.end(), recv.begin() + static_cast<std::ptrdiff_t>(rank * n));
  const DeviceSpan<T> all(recv);
  check.ok(c.all_gather(all.subspan(rank * n, n), all), "all_gather in place");
  check.same(recv, everything, "all_gather in place", n);

  recv.assign(c.rank() == root ? n * world : 0, T());
  check.ok(c.gather(send, DeviceSpan(recv), root), "gather");
  if (c.rank() == root) check.same(recv, everything, "gather", n);

  std::vector<T> one(n);
  check.ok(c.scatter(DeviceSpan(c.rank() == root ? std::as_const(everything) : std::vector<T>()),
                     DeviceSpan(one), root),
           "scatter");
  check.same(one, own, "scatter", n);

  one = own;
  check.ok(c.broadcast(DeviceSpan(one), root), "broadcast");
  check.same(one, contribution<T>(root, n), "broadcast", n);

  const std::vector<T> blocks = contribution<T>(c.rank(), n * world);
  recv.assign(n * world, T());
  check.ok(c.all_to_all(DeviceSpan(blocks), DeviceSpan(recv)), "all_to_all");
  check.same(recv, joined<T>(size, n, rank * n, n * world), "all_to_all", n);

  // Rank i sends i + j elements to rank j, some of them none at all.
  std::vector<std::size_t> send_counts;
  std::vector<std::size_t> recv_counts;
  std::vector<T> expected;
  std::size_t sent = 0;
  for (std::size_t r = 0; r < world; ++r) {
    send_counts.push_back((rank + r) % 3 * n);
    recv_counts.push_back((rank + r) % 3 * n);
    sent += send_counts.back();
    std::size_t before = 0;
    for (std::size_t j = 0; j < rank; ++j) before += (r + j) % 3 * n;
    for (std::size_t i = 0; i < recv_counts.back(); ++i)
      expected.push_back(reference::value<T>(static_cast<int>(r), before + i));
  }
  const std::vector<T> mixed = contribution<T>(c.rank(), sent);
  recv.assign(expected.size(), T());
  check.ok(
      c.all_to_all_v(DeviceSpan(mixed), send_counts.data(), DeviceSpan(recv), recv_counts.data()),
      "all_to_all_v");
  check.same(recv, expected, "all_to_all_v", n);

  const int next = (c.rank() + 1) % size;
  const int previous = (c.rank() + size - 1) % size;
  one.assign(n, T());
  check.ok(c.send_recv(send, next, DeviceSpan(one), previous), "send_recv");
  check.same(one, contribution<T>(previous, n), "send_recv", n);
  check.ok(c.barrier(), "barrier");
}

// Around what fits into a post, vectors, and, with the slots used here, into a round.
inline constexpr std::size_t kCounts[] = {0,  1,   3,   7,    12,   13,    31,
                                          64, 255, 257, 1025, 4095, 16389, 40001};

inline void small_slots(comm::Host::Config& config) {
  config.slot_bytes = 64 * 1024;
}

template <class T>
void check_all() {
  for (const int size : {1, 2, 3, 4, 7, 8}) {
    const ranks::Watchdog watchdog("collectives of " + TypeName<T>::get());
    ranks::as_threads(
        size,
        [](HostCommunicator& c, Failures& failures) {
          for (const std::size_t n : kCounts) {
            if (n > 5000 && c.world_size() > 4) continue;
            reductions<T>(c, failures, n);
            moves<T>(c, failures, n);
          }
        },
        small_slots);
  }
}

}  // namespace collectives
