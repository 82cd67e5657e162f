#pragma once

/// `SymmetricMemory` keeps the areas of a team that `symmetric_alloc` made: one block for each rank,
/// side by side in the world's file, mapped as a whole by every rank. A rank names a place in its
/// own block by its offset in the file, which every other rank can turn into an address of its own.
///
/// Freeing is local: the memory goes when the last rank has freed it, so nobody waits, and it works
/// after a failure. After a reconnect the blocks stay where they are, with what was in them, as
/// ordinary memory: the process of some rank may be a new one, which never had them.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/backends/host/call.h"
#include "comm/backends/host/shared_file.h"
#include "comm/result.h"

namespace comm::detail::host {

class SymmetricMemory {
 public:
  /// All ranks call it; all fail where one does.
  Result<void*> allocate(Team& team, std::size_t bytes, std::int64_t timeout_ns);
  Status release(Team& team, void* buffer);

  /// Whether this team ever had such memory: the same on all ranks, though they may free at
  /// different times.
  bool was_used() const { return was_used_; }

  /// The place of `bytes` at `p` in the file; 0 where they are not in this rank's block of one area.
  std::uint64_t locate(const void* p, std::size_t bytes) const;

  /// The address of a place that some rank has located.
  std::byte* at(std::uint64_t place) const;

  /// Takes this rank's blocks out of the file, and so out of the reach of any other process, without
  /// moving them; they go on as ordinary memory.
  Status retire(Team& team);

  /// For a new team, of which no rank has symmetric memory yet.
  void start_anew() { was_used_ = false; }

 private:
  struct Area {
    std::uint64_t offset = 0;  ///< In the file.
    std::size_t stride = 0;    ///< From one rank's block to the next.
    Mapping mapping;
    std::byte* own = nullptr;  ///< This rank's block.
    bool is_retired = false;   ///< `mapping` is `own` alone, and private.
  };

  std::vector<Area> areas_;
  bool was_used_ = false;
};

}  // namespace comm::detail::host
