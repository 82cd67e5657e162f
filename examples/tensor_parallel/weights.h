#pragma once

/// The transformer's weights, made from the seed and not read from a file. Each weight depends on
/// its place in the whole model alone, so a rank makes its shard without seeing the rest.

#include <vector>

#include "examples/tensor_parallel/matrix.h"
#include "examples/tensor_parallel/shape.h"

namespace example {

struct LayerWeights {
  Matrix qkv;   ///< Column-parallel: queries, keys and values of this shard's heads.
  Matrix out;   ///< Row-parallel: the result is a partial sum.
  Matrix up;    ///< Column-parallel: the MLP's inner columns of this shard.
  Matrix down;  ///< Row-parallel: the result is a partial sum.
};

std::vector<float> make_embedding(const Shape& shape);
LayerWeights make_layer(const Shape& shape, const Shard& shard, std::size_t layer);

/// The weights of all the layers, without the embedding, which every rank has whole.
std::size_t weight_count(const Shape& shape, const Shard& shard);

}  // namespace example
