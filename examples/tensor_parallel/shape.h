#pragma once

/// What the transformer looks like, and which part of it a rank holds: some of the attention heads
/// and some of the inner columns of the MLP (Megatron-LM's split). Any number of ranks up to the
/// number of heads; parts differ by one head where the ranks do not divide them.

#include <cstddef>
#include <cstdint>

namespace example {

struct Shape {
  std::size_t hidden = 512;
  std::size_t heads = 8;
  std::size_t ffn = 2048;
  std::size_t layers = 4;
  std::size_t sequence = 128;  ///< Positions that see one another.
  std::uint64_t seed = 1;

  std::size_t head_size() const { return hidden / heads; }
};

/// The part [begin, end) of a dimension.
struct Range {
  std::size_t begin;
  std::size_t end;

  std::size_t size() const { return end - begin; }
};

struct Shard {
  Range heads;  ///< Of the attention: columns of Q, K and V, rows of the output projection.
  Range ffn;    ///< Of the MLP: columns of the first matrix, rows of the second.
};

inline Range part(std::size_t whole, int rank, int ranks) {
  const auto r = static_cast<std::size_t>(rank);
  const auto n = static_cast<std::size_t>(ranks);
  return {whole * r / n, whole * (r + 1) / n};
}

inline Shard shard_of(const Shape& shape, int rank, int ranks) {
  return {part(shape.heads, rank, ranks), part(shape.ffn, rank, ranks)};
}

}  // namespace example
