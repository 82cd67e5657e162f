#pragma once

/// What a transformer computes beside its matrix products: embedding, RMSNorm, GELU and causal
/// multi-head attention. All in FP32, on rows of activations that lie densely; one thread.

#include <cstddef>
#include <cstdint>
#include <span>

#include "examples/tensor_parallel/shape.h"

namespace example {

/// One row for each byte of `text`: the embedding of its value plus that of its position in its
/// sequence (sines, as in "Attention is all you need").
void embed(std::span<const std::uint8_t> text, const Shape& shape, std::span<const float> embedding,
           float* out);

/// Each row of `in` scaled to a root mean square of 1.
void rms_norm(const float* in, std::size_t rows, std::size_t width, float* out);

void gelu(std::span<float> x);

/// Attention of each position to itself and those before it in its sequence. A row of `qkv` holds the
/// queries of `heads` heads, then their keys, then their values; a row of `out` their results.
void attention(const float* qkv, std::size_t rows, std::size_t heads, std::size_t head_size,
               std::size_t sequence, float* out);

void add(std::span<float> to, std::span<const float> what);

}  // namespace example
