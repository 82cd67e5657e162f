#pragma once

/// The latest epoch of a `World`, laid out for comparison: a row for each rank that is in it, and all
/// of their collectives in the order of their numbers. Refers to the world, which outlives it.

#include <cstdint>
#include <span>
#include <vector>

#include "comm/trace/dump.h"
#include "comm/trace/world.h"

namespace comm::trace {

struct Row {
  const Dump* dump;
  std::span<const Entry> entries;  ///< Of the epoch.
  bool is_whole;                   ///< Nothing of the epoch has left the ring.

  int rank() const { return dump->rank; }
  std::uint64_t last() const { return dump->collectives; }
};

/// One rank's call of a collective.
struct Call {
  std::uint64_t number;
  int row;
  const Entry* entry;
};

class View {
 public:
  View(const World& world, std::int64_t patience_ns);

  std::uint64_t epoch() const { return epoch_; }
  const World& world() const { return world_; }
  const std::vector<Row>& rows() const { return rows_; }
  /// Ranks that are in an earlier epoch.
  const std::vector<const Dump*>& behind() const { return behind_; }

  /// By number, and then by row.
  const std::vector<Call>& calls() const { return calls_; }
  /// Those of one number.
  std::span<const Call> calls_of(std::uint64_t number) const;
  const Entry* call(int row, std::uint64_t number) const;

  /// Whether somebody has failed, or waits for longer than a healthy rank would.
  bool is_troubled(const Row& row) const;
  bool is_troubled() const { return is_troubled_; }
  /// Waits, by what the rank's own clock says, without leave: a worker may wait for a command.
  bool waits_long(const Row& row, const Entry& entry) const;

 private:
  const World& world_;
  std::int64_t patience_ns_;
  std::uint64_t epoch_ = 0;
  std::vector<Row> rows_;
  std::vector<const Dump*> behind_;
  std::vector<Call> calls_;
  bool is_troubled_ = false;
};

}  // namespace comm::trace
