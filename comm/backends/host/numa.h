#pragma once

/// On which NUMA node memory lies. A slot is written by its rank and read once by each other one; on
/// the writer's node the writes stay at home, and only what has to cross between nodes does. The
/// kernel takes memory from the node of whoever touches it first, which here is one rank for all, so
/// that a lack of memory shows at once. So that rank says beforehand which piece is whose. It is said
/// of the file, and holds for every process that maps it.
///
/// All of it is advice: where there is one node, or the kernel refuses, memory lies where it did.

#include <cstddef>
#include <span>
#include <vector>

#include "comm/backends/host/layout.h"

namespace comm::detail::host {

/// A part of a region, for a rank on `node`.
struct Piece {
  std::size_t offset;
  std::size_t bytes;
  int node;
};

/// The node that the calling thread runs on.
int current_node();

/// Pages of this memory, which nobody has touched yet, shall come from `node`.
bool prefer_node(void* base, std::size_t bytes, int node);

/// Whose the slots and the rings of a team are; `nodes` in rank order. Nothing where all are on one
/// node. What ranks share within a page is not in it.
std::vector<Piece> pieces_of(const Layout& layout, std::span<const int> nodes);

/// The same for a block of `stride` bytes for each rank.
std::vector<Piece> pieces_of(std::size_t stride, std::span<const int> nodes);

}  // namespace comm::detail::host
