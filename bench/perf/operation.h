#pragma once

/// What `comm_perf` can measure: how each operation counts bytes and bandwidth. The conventions are
/// those of nccl-tests ("doc/PERFORMANCE.md"), so that figures compare.

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace comm::perf {

enum class Kind {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  gather,
  scatter,
  all_to_all,
  send_recv,
  barrier,
};

struct OperationTraits {
  std::string_view name;
  Kind kind;
  bool reduces;
  bool has_root;
  bool has_in_place;
  bool splits_size;  ///< The size is of all ranks' blocks together.
};

inline constexpr std::array kOperations{
    OperationTraits{"all_reduce", Kind::all_reduce, true, false, true, false},
    OperationTraits{"all_gather", Kind::all_gather, false, false, true, true},
    OperationTraits{"reduce_scatter", Kind::reduce_scatter, true, false, true, true},
    OperationTraits{"broadcast", Kind::broadcast, false, true, true, false},
    OperationTraits{"reduce", Kind::reduce, true, true, true, false},
    OperationTraits{"gather", Kind::gather, false, true, true, true},
    OperationTraits{"scatter", Kind::scatter, false, true, true, true},
    OperationTraits{"all_to_all", Kind::all_to_all, false, false, false, true},
    OperationTraits{"send_recv", Kind::send_recv, false, false, false, false},
    OperationTraits{"barrier", Kind::barrier, false, false, false, false},
};

constexpr const OperationTraits* find_operation(std::string_view name) {
  const auto* found = std::find_if(kOperations.begin(), kOperations.end(),
                                   [&](const OperationTraits& o) { return o.name == name; });
  return found == kOperations.end() ? nullptr : found;
}

/// Bus bandwidth over algorithm bandwidth: what the wires carry for each byte of the size.
constexpr double bus_factor(Kind kind, int ranks) {
  const double n = ranks;
  switch (kind) {
    case Kind::all_reduce: return 2 * (n - 1) / n;
    case Kind::all_gather:
    case Kind::reduce_scatter:
    case Kind::gather:
    case Kind::scatter:
    case Kind::all_to_all: return (n - 1) / n;
    case Kind::broadcast:
    case Kind::reduce:
    case Kind::send_recv: return 1;
    case Kind::barrier: return 0;
  }
  return 1;
}

}  // namespace comm::perf
