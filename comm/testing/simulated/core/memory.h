#pragma once

/// The simulated machine's memory: device, managed and pinned memory, all of it host memory between
/// guard pages, filled with 0xFF (NaN) when it is new. Freed ranges stay unreadable for a while, so
/// that a late access faults instead of reading somebody else's data, and are remembered, so that
/// it can be named. Not thread-safe: under the machine's mutex.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

namespace comm::simulated::detail {

enum class MemoryKind { device, managed, pinned, registered };

struct Allocation {
  std::uintptr_t begin = 0;
  std::size_t size = 0;
  MemoryKind kind = MemoryKind::device;
  int device = 0;
  bool from_nccl = false;  // ncclMemAlloc: may be a symmetric window
  bool freed = false;
  const char* made_by = "";
  std::uintptr_t mapping = 0;  // With the guard pages; 0 for registered host memory.
  std::size_t mapping_size = 0;
  unsigned host_flags = 0;

  std::uintptr_t end() const { return begin + size; }
  bool on_device() const { return kind == MemoryKind::device || kind == MemoryKind::managed; }
};

class Memory {
 public:
  static constexpr std::size_t kBytesPerDevice = std::size_t{80} << 30;

  /// Null when the device has no room.
  void* allocate(std::size_t size, MemoryKind kind, int device, const char* made_by);
  bool register_host(void* pointer, std::size_t size, unsigned flags);

  /// The live allocation that begins there, or nothing.
  Allocation* starting_at(const void* pointer);
  /// The one that holds the address; live ones first, then freed ones not yet forgotten.
  const Allocation* holding(const void* pointer) const;

  void release(Allocation* allocation);

  std::size_t used(int device) const;
  const std::map<std::uintptr_t, Allocation>& live() const { return live_; }

 private:
  std::map<std::uintptr_t, Allocation> live_;
  std::deque<Allocation> freed_;
  std::map<int, std::size_t> used_;
};

/// What is wrong with an access of `size` bytes at `pointer`, in words; empty when nothing is.
/// `needs_device`: pageable host memory will not do.
std::string describe_bad_range(const Memory& memory, const void* pointer, std::size_t size,
                               std::size_t alignment, bool needs_device);

}  // namespace comm::simulated::detail
