#include "examples/tensor_parallel/layers.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace example {
namespace {

// Sums in lanes, so that the compiler may vectorise them without reordering anything.
constexpr std::size_t kLanes = 16;

float sum_of(const float (&lanes)[kLanes]) {
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

float dot(const float* a, const float* b, std::size_t n) {
  float lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t l = 0; l < kLanes; ++l) lanes[l] += a[i + l] * b[i + l];
  }
  for (; i < n; ++i) lanes[i % kLanes] += a[i] * b[i];
  return sum_of(lanes);
}

void softmax(std::span<float> x) {
  const float highest = *std::max_element(x.begin(), x.end());
  float sum = 0;
  for (float& v : x) {
    v = std::exp(v - highest);
    sum += v;
  }
  for (float& v : x) v /= sum;
}

}  // namespace

void embed(std::span<const std::uint8_t> text, const Shape& shape, std::span<const float> embedding,
           float* out) {
  const std::size_t width = shape.hidden;
  std::vector<float> frequency(width);
  for (std::size_t i = 0; i < width; ++i) {
    frequency[i] = std::pow(10000.0f, -static_cast<float>(i / 2 * 2) / static_cast<float>(width));
  }
  for (std::size_t row = 0; row < text.size(); ++row) {
    const auto position = static_cast<float>(row % shape.sequence);
    const float* value = embedding.data() + text[row] * width;
    for (std::size_t i = 0; i < width; ++i) {
      const float angle = position * frequency[i];
      out[row * width + i] = value[i] + (i % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
}

void rms_norm(const float* in, std::size_t rows, std::size_t width, float* out) {
  for (std::size_t row = 0; row < rows; ++row, in += width, out += width) {
    const float mean_square = dot(in, in, width) / static_cast<float>(width);
    const float scale = 1 / std::sqrt(mean_square + 1e-6f);
    for (std::size_t i = 0; i < width; ++i) out[i] = in[i] * scale;
  }
}

// The usual approximation x/2 (1 + tanh y), written with the cheaper exponential.
void gelu(std::span<float> x) {
  constexpr float kTwiceRootOf2OverPi = 1.5957691216f;
  for (float& v : x) v /= 1 + std::exp(-kTwiceRootOf2OverPi * (v + 0.044715f * v * v * v));
}

void attention(const float* qkv, std::size_t rows, std::size_t heads, std::size_t head_size,
               std::size_t sequence, float* out) {
  const std::size_t width = heads * head_size;
  const std::size_t stride = 3 * width;
  const float scale = 1 / std::sqrt(static_cast<float>(head_size));
  std::vector<float> weights(sequence);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t first = row / sequence * sequence;
    const std::size_t seen = row - first + 1;
    for (std::size_t head = 0; head < heads; ++head) {
      const float* query = qkv + row * stride + head * head_size;
      const float* key = qkv + first * stride + width + head * head_size;
      for (std::size_t i = 0; i < seen; ++i) {
        weights[i] = scale * dot(query, key + i * stride, head_size);
      }
      softmax({weights.data(), seen});
      float* mixed = out + row * width + head * head_size;
      std::fill_n(mixed, head_size, 0.0f);
      for (std::size_t i = 0; i < seen; ++i) {
        const float* value = key + width + i * stride;
        for (std::size_t d = 0; d < head_size; ++d) mixed[d] += weights[i] * value[d];
      }
    }
  }
}

void add(std::span<float> to, std::span<const float> what) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += what[i];
}

}  // namespace example
