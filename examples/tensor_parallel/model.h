#pragma once

/// The transformer: written once, for any communicator. Each rank holds a shard of every layer and
/// all the activations between layers; what it computes from its rows of a matrix is a partial sum,
/// and the ranks' partial sums make the whole. That is two all-reduces a layer, as in Megatron-LM.
///
///     Model model(communicator, wire, shape);
///     comm::Status s = model.forward(text, out);
///
/// With `Communicator<SingleGpu>` the partial sum is the whole, and the compiler removes the
/// all-reduce with its error branch: //tests/examples:model_codegen_test compares the object code
/// with that of a model that never communicates.

#include <cstdint>
#include <span>
#include <vector>

#include "comm/status.h"
#include "examples/tensor_parallel/layers.h"
#include "examples/tensor_parallel/shape.h"
#include "examples/tensor_parallel/weights.h"
#include "examples/tensor_parallel/wire.h"

namespace example {

template <class Communicator, Wire<Communicator> W>
class Model {
 public:
  /// Both must outlive the model.
  Model(Communicator& communicator, W& wire, const Shape& shape)
      : communicator_(communicator),
        wire_(wire),
        shape_(shape),
        shard_(shard_of(shape, communicator.rank(), communicator.world_size())),
        embedding_(make_embedding(shape)) {
    for (std::size_t i = 0; i < shape.layers; ++i) layers_.push_back(make_layer(shape, shard_, i));
  }

  const Shard& shard() const { return shard_; }

  /// Every byte of `text` through the stack, in sequences of `shape.sequence`; `out` gets one row of
  /// `shape.hidden` for each.
  comm::Status forward(std::span<const std::uint8_t> text, std::span<float> out) {
    const std::size_t rows = text.size();
    const std::size_t heads = shard_.heads.size();
    resize(rows);
    embed(text, shape_, embedding_, residual_.data());
    for (const LayerWeights& layer : layers_) {
      rms_norm(residual_.data(), rows, shape_.hidden, normed_.data());
      layer.qkv.multiply(normed_.data(), rows, inner_.data());
      attention(inner_.data(), rows, heads, shape_.head_size(), shape_.sequence, mixed_.data());
      if (comm::Status s = add_product(mixed_, layer.out, rows); !s.ok()) return s;

      rms_norm(residual_.data(), rows, shape_.hidden, normed_.data());
      layer.up.multiply(normed_.data(), rows, inner_.data());
      gelu({inner_.data(), rows * shard_.ffn.size()});
      if (comm::Status s = add_product(inner_, layer.down, rows); !s.ok()) return s;
    }
    rms_norm(residual_.data(), rows, shape_.hidden, out.data());
    return {};
  }

 private:
  /// residual += in * w, summed over the ranks.
  comm::Status add_product(const std::vector<float>& in, const Matrix& w, std::size_t rows) {
    w.multiply(in.data(), rows, partial_.data());
    const std::span<float> sum(partial_.data(), rows * shape_.hidden);
    if (comm::Status s = wire_.all_reduce(communicator_, {in.data(), rows, w, sum}); !s.ok()) {
      return s;
    }
    add({residual_.data(), sum.size()}, sum);
    return {};
  }

  void resize(std::size_t rows) {
    if (rows * shape_.hidden <= residual_.size()) return;
    const std::size_t width = shard_.heads.size() * shape_.head_size();
    const std::size_t inner = 3 * width > shard_.ffn.size() ? 3 * width : shard_.ffn.size();
    for (auto* buffer : {&residual_, &normed_, &partial_}) buffer->resize(rows * shape_.hidden);
    mixed_.resize(rows * width);
    inner_.resize(rows * inner);
  }

  Communicator& communicator_;
  W& wire_;
  Shape shape_;
  Shard shard_;
  std::vector<float> embedding_;
  std::vector<LayerWeights> layers_;
  std::vector<float> residual_, normed_, partial_, mixed_, inner_;
};

}  // namespace example
