#pragma once

/// The collective operations, on a team. What they have in common: up to `kInline` bytes travel in
/// the post itself; more goes through the slots, in rounds of a slot each, so memory stays bounded
/// whatever the count; buffers in symmetric memory are read and written where they are.
///
/// Every one of them meets all ranks in its first tick, so different calls are found out on all, and
/// what returns has its result.

#include <cstdint>

#include "comm/backends/host/call.h"
#include "comm/backends/host/reduce.h"
#include "comm/backends/host/symmetric.h"
#include "comm/operations.h"

namespace comm::detail::host {

/// What a collective works with.
struct Setting {
  Team& team;
  const SymmetricMemory& symmetric;
  std::int64_t timeout_ns;
};

Status all_reduce(const Setting& on, const ops::AllReduce& op);
Status reduce(const Setting& on, const ops::Reduce& op);
Status reduce_scatter(const Setting& on, const ops::ReduceScatter& op);
Status all_gather(const Setting& on, const ops::AllGather& op);
/// `name` is what the caller calls it, for messages.
Status broadcast(const Setting& on, const ops::Broadcast& op,
                 Operation name = Operation::broadcast);
Status gather(const Setting& on, const ops::Gather& op);
Status scatter(const Setting& on, const ops::Scatter& op);
Status all_to_all(const Setting& on, const ops::AllToAll& op);
Status all_to_all_v(const Setting& on, const ops::AllToAllV& op);
Status barrier(const Setting& on, Operation name = Operation::barrier);

// Between the files of this folder.

inline std::byte* at(void* p, std::size_t bytes) {
  return static_cast<std::byte*>(p) + bytes;
}
inline const std::byte* at(const void* p, std::size_t bytes) {
  return p == nullptr ? nullptr : static_cast<const std::byte*>(p) + bytes;
}

/// A block of one of `n` ranks in `count` elements: all alike but the last ones, and each starting
/// at a cache line if the whole does.
struct Share {
  std::size_t begin;
  std::size_t size;

  static Share of(std::size_t count, std::size_t element, int rank, int n) {
    const std::size_t line = kLine / element;
    const std::size_t each =
        round_up((count + static_cast<std::size_t>(n) - 1) / static_cast<std::size_t>(n), line);
    const std::size_t begin = each * static_cast<std::size_t>(rank);
    if (begin >= count) return {count, 0};
    return {begin, begin + each <= count ? each : count - begin};
  }
};

/// A reduction of all ranks' contributions: the kernel and, for a pre-multiplied sum, the factors.
class Reducer {
 public:
  Reducer(Call& call, DataType type, ReduceOp op)
      : call_(call), run_(reduction(type, op.kind())), op_(op) {}

  /// Before the first tick: shows this rank's factor.
  void announce() {
    if (op_.kind() == ReduceOp::Kind::premul_sum) show_factor();
  }
  /// After the first tick: reads the others'.
  void settle() {
    if (op_.kind() == ReduceOp::Kind::premul_sum) read_factors();
  }
  /// `sources` in rank order.
  void operator()(void* destination, const void* const* sources, std::size_t count) const {
    run_(destination, sources, call_.size(), count, factors_);
  }

 private:
  [[gnu::cold]] void show_factor();
  [[gnu::cold]] void read_factors();

  Call& call_;
  Reduction run_;
  ReduceOp op_;
  double factors_[kMaxRanks];
};

}  // namespace comm::detail::host
