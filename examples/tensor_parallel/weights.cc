#include "examples/tensor_parallel/weights.h"

#include <cmath>

namespace example {
namespace {

enum Tensor : std::uint64_t { kEmbedding, kQuery, kKey, kValue, kOut, kUp, kDown, kTensors };

// Finaliser of SplitMix64: as good as a fresh random number for each counter.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Uniform with the given standard deviation.
class Values {
 public:
  Values(const Shape& shape, std::size_t layer, Tensor tensor, float deviation)
      : key_(mixed(shape.seed * 0x10001 + layer * kTensors + tensor)),
        range_(deviation * std::sqrt(12.0f)) {}

  float at(std::size_t index) const {
    const auto bits = static_cast<float>(mixed(key_ ^ index) >> 40);  // 24 bits: exact
    return (bits * 0x1p-24f - 0.5f) * range_;
  }

 private:
  std::uint64_t key_;
  float range_;
};

/// Fills columns [to, to + columns.size()) of `w` with rows x columns of a tensor `width` wide.
/// Rows are scaled so that a product with them keeps the variance of its input.
void fill(Matrix& w, std::size_t to, const Values& values, Range rows, Range columns,
          std::size_t width) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < columns.size(); ++j) {
      w.set(i, to + j, values.at((rows.begin + i) * width + columns.begin + j));
    }
  }
}

float keeps_variance(std::size_t inputs) {
  return 1 / std::sqrt(static_cast<float>(inputs));
}

}  // namespace

std::vector<float> make_embedding(const Shape& shape) {
  const Values values(shape, 0, kEmbedding, 1.0f);
  std::vector<float> embedding(256 * shape.hidden);
  for (std::size_t i = 0; i < embedding.size(); ++i) embedding[i] = values.at(i);
  return embedding;
}

LayerWeights make_layer(const Shape& shape, const Shard& shard, std::size_t layer) {
  const std::size_t hidden = shape.hidden;
  const Range all{0, hidden};
  const Range columns{shard.heads.begin * shape.head_size(), shard.heads.end * shape.head_size()};
  const auto values = [&](Tensor tensor, std::size_t inputs) {
    return Values(shape, layer, tensor, keeps_variance(inputs));
  };

  LayerWeights weights{Matrix(hidden, 3 * columns.size()), Matrix(columns.size(), hidden),
                       Matrix(hidden, shard.ffn.size()), Matrix(shard.ffn.size(), hidden)};
  std::size_t to = 0;
  for (const Tensor tensor : {kQuery, kKey, kValue}) {
    fill(weights.qkv, to, values(tensor, hidden), all, columns, hidden);
    to += columns.size();
  }
  fill(weights.out, 0, values(kOut, hidden), columns, all, hidden);
  fill(weights.up, 0, values(kUp, hidden), all, shard.ffn, shape.ffn);
  fill(weights.down, 0, values(kDown, shape.ffn), shard.ffn, all, hidden);
  return weights;
}

std::size_t weight_count(const Shape& shape, const Shard& shard) {
  const std::size_t width = shard.heads.size() * shape.head_size();
  return shape.layers * shape.hidden * (4 * width + 2 * shard.ffn.size());
}

}  // namespace example
