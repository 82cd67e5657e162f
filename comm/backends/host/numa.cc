#include "comm/backends/host/numa.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <functional>

namespace comm::detail::host {

namespace {

bool is_one_node(std::span<const int> nodes) {
  return std::adjacent_find(nodes.begin(), nodes.end(), std::not_equal_to<>()) == nodes.end();
}

}  // namespace

int current_node() {
  unsigned int core = 0;
  unsigned int node = 0;
  return syscall(SYS_getcpu, &core, &node, nullptr) == 0 ? static_cast<int>(node) : 0;
}

bool prefer_node(void* base, std::size_t bytes, int node) {
  constexpr int kWordBits = sizeof(unsigned long) * CHAR_BIT;
  constexpr int kMostNodes = 1024;
  unsigned long nodes[kMostNodes / kWordBits] = {};
  if (node < 0 || node >= kMostNodes) return false;
  nodes[node / kWordBits] = 1UL << (node % kWordBits);
  return syscall(SYS_mbind, base, bytes, MPOL_PREFERRED, nodes, kMostNodes, 0) == 0;
}

std::vector<Piece> pieces_of(const Layout& layout, std::span<const int> nodes) {
  std::vector<Piece> pieces;
  if (is_one_node(nodes)) return pieces;
  const std::size_t rings = layout.n * layout.ring_bytes;  // To all others, from one.
  for (std::size_t r = 0; r < nodes.size(); ++r) {
    pieces.push_back({layout.ring_data() + r * rings, rings, nodes[r]});
    pieces.push_back({layout.slots() + 2 * r * layout.slot_bytes, 2 * layout.slot_bytes, nodes[r]});
    pieces.push_back({layout.outs() + 2 * r * layout.out_bytes, 2 * layout.out_bytes, nodes[r]});
  }
  return pieces;
}

std::vector<Piece> pieces_of(std::size_t stride, std::span<const int> nodes) {
  std::vector<Piece> pieces;
  if (is_one_node(nodes)) return pieces;
  for (std::size_t r = 0; r < nodes.size(); ++r) pieces.push_back({r * stride, stride, nodes[r]});
  return pieces;
}

}  // namespace comm::detail::host
