#include "examples/tensor_parallel/matrix.h"

#include <algorithm>
#include <cstring>

namespace example {
namespace {

/// One block of inputs times one panel.
struct Task {
  const float* a;      ///< First row, at the block's first input.
  std::size_t stride;  ///< From one row of `a` to the next.
  const float* panel;
  std::size_t block;  ///< Inputs.
  std::size_t rows;
  float* sums;  ///< rows x panel width; added to.
};

/// `Rows` rows of the result at a time, each in `Vectors` registers of `Lanes` floats.
template <int Lanes, int Vectors, int Rows, std::size_t kPanel>
[[gnu::always_inline]] inline void add_rows(const Task& task, std::size_t row) {
  typedef float V __attribute__((vector_size(Lanes * sizeof(float)), aligned(sizeof(float))));
  for (std::size_t column = 0; column < kPanel; column += Lanes * Vectors) {
    V sum[Rows][Vectors] = {};
    for (std::size_t k = 0; k < task.block; ++k) {
      V w[Vectors];
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v)
        w[v] = *reinterpret_cast<const V*>(task.panel + k * kPanel + column +
                                           static_cast<std::size_t>(v * Lanes));
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) {
        const float a = task.a[(row + static_cast<std::size_t>(r)) * task.stride + k];
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) sum[r][v] += a * w[v];
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) {
        float* to = task.sums + (row + static_cast<std::size_t>(r)) * kPanel + column +
                    static_cast<std::size_t>(v * Lanes);
        *reinterpret_cast<V*>(to) += sum[r][v];
      }
    }
  }
}

template <int Lanes, int Vectors, int Rows, std::size_t kPanel>
[[gnu::always_inline]] inline void add_block(const Task& task) {
  std::size_t row = 0;
  for (; row + Rows <= task.rows; row += Rows) add_rows<Lanes, Vectors, Rows, kPanel>(task, row);
  for (; row < task.rows; ++row) add_rows<Lanes, Vectors, 1, kPanel>(task, row);
}

constexpr std::size_t kWidth = 32;

// The same loops for what the processor can do; the widest that fits its registers.
void add_block_portable(const Task& task) {
  add_block<4, 2, 4, kWidth>(task);
}
#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void add_block_avx2(const Task& task) {
  add_block<8, 2, 6, kWidth>(task);
}
[[gnu::target("avx512f")]] void add_block_avx512(const Task& task) {
  add_block<16, 2, 8, kWidth>(task);
}
#endif

auto fastest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return add_block_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return add_block_avx2;
#endif
  return add_block_portable;
}

}  // namespace

Matrix::Matrix(std::size_t inputs, std::size_t outputs)
    : inputs_(inputs),
      outputs_(outputs),
      panels_((outputs + kPanel - 1) / kPanel * kPanel * inputs) {}

void Matrix::multiply(const float* a, std::size_t rows, float* out) const {
  static_assert(kPanel == kWidth);
  static const auto add = fastest();
  std::vector<float> sums(rows * kPanel);
  for (std::size_t first = 0; first < outputs_; first += kPanel) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    const float* panel = panels_.data() + first * inputs_;
    for (std::size_t k = 0; k < inputs_; k += kBlock) {
      add({a + k, inputs_, panel + k * kPanel, std::min(kBlock, inputs_ - k), rows, sums.data()});
    }
    const std::size_t columns = std::min(kPanel, outputs_ - first);
    for (std::size_t row = 0; row < rows; ++row) {
      std::memcpy(out + row * outputs_ + first, sums.data() + row * kPanel,
                  columns * sizeof(float));
    }
  }
}

}  // namespace example
