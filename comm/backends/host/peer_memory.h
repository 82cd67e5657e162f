#pragma once

/// `PeerMemory` reads the memory of other ranks with one copy: through the kernel
/// (process_vm_readv), or directly where the rank is a thread of this process. Whether the kernel
/// allows it depends on users, containers and yama, so it is tried once, on a word that the other
/// rank has shown; where any rank may not, nobody does, and bytes go through shared memory.
///
/// Nothing here is opened up: what a process may not read it still may not.
///
/// Thread safety: `read` from any thread, once all ranks are admitted.

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "comm/backends/host/layout.h"

namespace comm::detail::host {

class PeerMemory {
 public:
  /// A word of a rank's memory, for the others to try.
  struct Sample {
    std::uint64_t address;
    std::uint64_t value;
  };

  PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  Sample own_sample() const { return {reinterpret_cast<std::uintptr_t>(&sample_), sample_}; }

  /// Whether `rank`, in process `pid` of this PID namespace, can be read.
  bool admit(int rank, pid_t pid, const Sample& sample);

  /// 0, or the errno of what went wrong. `from` is an address of that rank's process.
  int read(int rank, void* to, const void* from, std::size_t bytes) const noexcept;

 private:
  std::uint64_t sample_ = 0;
  pid_t self_;
  std::array<pid_t, kMaxRanks> pids_{};
};

}  // namespace comm::detail::host
