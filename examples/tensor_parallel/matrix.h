#pragma once

/// A matrix of weights, and the product with it that takes nearly all of the time. `Matrix` keeps its
/// columns in panels, so that the product reads memory in order; it is written once and multiplied
/// often. One thread; no BLAS.
///
///     Matrix w(inputs, outputs);
///     w.set(input, output, 0.5f);
///     w.multiply(a, rows, out);   // out[r][o] = sum over i of a[r][i] * w[i][o]
///
/// An element of the result depends on its row of `a` and its column of `w` alone: a matrix that holds
/// some of the columns gives bit for bit those columns of the whole product. Sums are taken over
/// blocks of `kBlock` inputs, then over the blocks: see `summands`.

#include <cstddef>
#include <vector>

namespace example {

class Matrix {
 public:
  static constexpr std::size_t kBlock = 128;

  Matrix() = default;
  Matrix(std::size_t inputs, std::size_t outputs);

  std::size_t inputs() const { return inputs_; }
  std::size_t outputs() const { return outputs_; }
  std::size_t size() const { return inputs_ * outputs_; }

  void set(std::size_t input, std::size_t output, float value) {
    panels_[place(input, output)] = value;
  }
  float at(std::size_t input, std::size_t output) const { return panels_[place(input, output)]; }

  /// `a` is rows x inputs(), `out` rows x outputs(); both densely by row. Overwrites `out`.
  void multiply(const float* a, std::size_t rows, float* out) const;

  /// Each element of a product passes through at most this many roundings: FP32 error analysis
  /// (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1) needs no more.
  static std::size_t summands(std::size_t inputs) {
    return (inputs < kBlock ? inputs : kBlock) + (inputs + kBlock - 1) / kBlock;
  }

 private:
  static constexpr std::size_t kPanel = 32;  ///< Columns of a panel; the last is padded with zeros.

  std::size_t place(std::size_t input, std::size_t output) const {
    return (output / kPanel * inputs_ + input) * kPanel + output % kPanel;
  }

  std::size_t inputs_ = 0;
  std::size_t outputs_ = 0;
  std::vector<float> panels_;
};

}  // namespace example
