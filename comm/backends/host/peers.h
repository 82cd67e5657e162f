#pragma once

/// `Peers` knows whether the processes of the other ranks live. The kernel tells: a pidfd for each
/// becomes readable when its process ends, however it ends, and one epoll descriptor asks for all
/// of them in one system call. It costs nothing until asked.
///
/// Thread safety: all members but `watch` from any thread.

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "comm/backends/host/layout.h"
#include "comm/rendezvous/unique_fd.h"
#include "comm/status.h"

namespace comm::detail::host {

class Peers {
 public:
  /// Starts to watch the process of `rank`. Where it cannot be named, because it lives in another
  /// PID namespace or the kernel is too old, nothing is watched and this is ok.
  Status watch(int rank, pid_t pid);

  /// The ranks whose processes have ended, as bits.
  std::uint64_t ended() noexcept;

  pid_t pid(int rank) const { return pids_[static_cast<std::size_t>(rank)]; }

 private:
  UniqueFd epoll_;
  std::array<UniqueFd, kMaxRanks> processes_;
  std::array<pid_t, kMaxRanks> pids_{};
  std::atomic<std::uint64_t> ended_{0};
};

}  // namespace comm::detail::host
