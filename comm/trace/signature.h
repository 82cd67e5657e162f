#pragma once

/// What has to be the same on all ranks in a call of a collective. Forms of one operation that go
/// together are one: with and without a wait, a broadcast and the command that its worker receives.

#include <cstdint>
#include <string>
#include <tuple>

#include "comm/trace/dump.h"

namespace comm::trace {

struct Signature {
  Operation op;
  DataType type;
  std::uint64_t count;
  std::uint8_t reduction;
  std::int32_t root;

  bool operator==(const Signature&) const = default;
  bool operator<(const Signature& other) const {
    return std::tie(op, type, count, reduction, root) <
           std::tie(other.op, other.type, other.count, other.reduction, other.root);
  }
};

inline Operation family(Operation op) {
  switch (op) {
    case Operation::all_reduce_async:
    case Operation::all_reduce_deferred: return Operation::all_reduce;
    case Operation::broadcast_async:
    case Operation::recv_command_u32: return Operation::broadcast;
    case Operation::barrier_wait: return Operation::barrier;
    default: return op;
  }
}

inline Signature signature(const Entry& entry) {
  const bool has_count = entry.op != Operation::all_to_all_v;
  const bool has_root = entry.op != Operation::split;  // There it is the color.
  return {family(entry.op), entry.type, has_count ? entry.count : 0, entry.reduction,
          has_root ? entry.partner : -1};
}

/// "the counts differ".
inline std::string difference(const Signature& a, const Signature& b) {
  if (a.op != b.op) return "the operations differ";
  std::string what;
  const auto add = [&](bool differs, const char* name) {
    if (differs) what += (what.empty() ? "" : " and ") + std::string(name);
  };
  add(a.type != b.type, "types");
  add(a.count != b.count, "counts");
  add(a.reduction != b.reduction, "reductions");
  add(a.root != b.root, "roots");
  return "the " + what + " differ";
}

}  // namespace comm::trace
