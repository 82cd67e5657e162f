#include "examples/tensor_parallel/error_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "comm/backends/single_gpu.h"
#include "comm/communicator.h"
#include "examples/tensor_parallel/model.h"

namespace example {
namespace {

std::vector<float> norms_of_columns(const Matrix& w) {
  std::vector<float> norms(w.outputs());
  for (std::size_t k = 0; k < w.inputs(); ++k) {
    for (std::size_t j = 0; j < w.outputs(); ++j) norms[j] += w.at(k, j) * w.at(k, j);
  }
  for (float& norm : norms) norm = std::sqrt(norm);
  return norms;
}

float norm_of(std::span<const float> x) {
  float squares = 0;
  for (const float v : x) squares += v * v;
  return std::sqrt(squares);
}

/// in * w with the inputs of `part` alone.
std::vector<float> partial_product(const Partial& partial, Range inputs) {
  const Matrix& w = partial.w;
  Matrix slice(inputs.size(), w.outputs());
  std::vector<float> in(partial.rows * inputs.size());
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    for (std::size_t j = 0; j < w.outputs(); ++j) slice.set(k, j, w.at(inputs.begin + k, j));
    for (std::size_t i = 0; i < partial.rows; ++i) {
      in[i * inputs.size() + k] = partial.in[i * w.inputs() + inputs.begin + k];
    }
  }
  std::vector<float> product(partial.sum.size());
  slice.multiply(in.data(), partial.rows, product.data());
  return product;
}

/// What rounding to BF16 can do to each element of a sum of `ranks` partial sums.
std::vector<float> bf16_errors(const Partial& partial, int ranks) {
  std::vector<float> errors(partial.sum.size());
  std::vector<float> so_far(partial.sum.size());
  for (int r = 0; r < ranks; ++r) {
    const std::vector<float> p = partial_product(partial, part(partial.w.inputs(), r, ranks));
    for (std::size_t i = 0; i < p.size(); ++i) {
      so_far[i] += p[i];
      errors[i] += 0x1p-8f * (std::fabs(p[i]) + (r > 0 ? std::fabs(so_far[i]) : 0));
    }
  }
  return errors;
}

/// Makes each sum as wrong as rounding can.
class WorstRounding {
 public:
  WorstRounding(Element element, int ranks) : element_(element), ranks_(ranks) {}

  template <class Communicator>
  comm::Status all_reduce(Communicator&, const Partial& partial) {
    perturb(partial);
    return {};
  }

 private:
  void perturb(const Partial& partial) {
    const Matrix& w = partial.w;
    const std::size_t roundings = Matrix::summands(w.inputs()) + static_cast<std::size_t>(ranks_);
    const float k = static_cast<float>(roundings) * 0x1p-24f;
    const float g = k / (1 - k);
    const std::vector<float> columns = norms_of_columns(w);

    std::vector<float> errors(partial.sum.size());
    if (element_ == Element::bf16) errors = bf16_errors(partial, ranks_);
    for (std::size_t i = 0; i < partial.rows; ++i) {
      const float row = norm_of({partial.in + i * w.inputs(), w.inputs()});
      for (std::size_t j = 0; j < w.outputs(); ++j) {
        const std::size_t at = i * w.outputs() + j;
        const float error = errors[at] + 2 * g * row * columns[j];
        partial.sum[at] += random_() % 2 == 0 ? error : -error;
      }
    }
  }

  Element element_;
  int ranks_;
  std::minstd_rand random_;  // The same signs in every run.
};

template <class W>
std::vector<float> outputs(const Shape& shape, std::span<const std::uint8_t> text, W wire) {
  comm::Communicator<comm::SingleGpu> alone{comm::SingleGpu()};
  Model model(alone, wire, shape);
  std::vector<float> out(text.size() * shape.hidden);
  model.forward(text, out).ignore();  // One rank: there is nothing that could fail.
  return out;
}

}  // namespace

float error_bound(const Shape& shape, std::span<const std::uint8_t> text, Element element,
                  int ranks) {
  const std::vector<float> exact = outputs(shape, text, Direct());
  const std::vector<float> worst = outputs(shape, text, WorstRounding(element, ranks));
  return kMargin * largest_difference(exact, worst);
}

float largest_difference(std::span<const float> a, std::span<const float> b) {
  float largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float difference = std::fabs(a[i] - b[i]);
    if (std::isnan(difference)) return std::numeric_limits<float>::infinity();
    largest = std::max(largest, difference);
  }
  return largest;
}

}  // namespace example
