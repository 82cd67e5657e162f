#pragma once

/// `World` is what all teams (communicators) that stem from one rendezvous share on one rank: the
/// file, the knowledge of who lives, the settings. It needs no rendezvous itself: tests make one
/// from a file alone.
///
/// Thread safety: as its members; settings are constant once the world is made.

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/backends/host/peer_memory.h"
#include "comm/backends/host/peers.h"
#include "comm/backends/host/shared_file.h"
#include "comm/backends/host/waiting.h"

namespace comm {
class OutOfBand;
}

namespace comm::detail::host {

/// True until the process forks: the child then has a zero in its copy, because the kernel wipes
/// that page. A load, where asking for the process id would be a system call.
class ForkGuard {
 public:
  ForkGuard();
  ~ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

  bool is_original() const { return page_->load(std::memory_order_relaxed) != 0; }

 private:
  std::atomic<std::uint32_t>* page_;
  std::atomic<std::uint32_t> fallback_{1};
};

struct World {
  SharedFile file;
  Peers peers;
  PeerMemory memory;
  ForkGuard fork_guard;
  std::shared_ptr<OutOfBand> out_of_band;  ///< None in a world of one rank.
  int rank = 0;
  int size = 1;
  std::uint64_t epoch = 0;
  Waiting waiting;
  std::size_t slot_bytes = 0;
  std::int64_t timeout_ns = 0;
  std::vector<int> nodes;  ///< NUMA nodes of all ranks, where they were when they met.
  bool wakes_are_exact = false;
  bool reads_peers = false;  ///< Every rank may read every other's memory. The same on all ranks.

  /// Those of the ranks `members`.
  std::vector<int> nodes_of(const std::vector<int>& members) const {
    std::vector<int> of;
    for (int r : members) of.push_back(nodes.empty() ? 0 : nodes[static_cast<std::size_t>(r)]);
    return of;
  }

  /// Set when a reconnect has made another world: the rendezvous now speaks of that one.
  std::atomic<bool> is_superseded{false};
};

}  // namespace comm::detail::host
