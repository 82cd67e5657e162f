#include "examples/tensor_parallel/matrix.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace example {
namespace {

float weight(std::size_t input, std::size_t output) {
  return static_cast<float>((input * 7 + output * 13) % 17) / 17 - 0.5f;
}

Matrix columns(std::size_t inputs, std::size_t first, std::size_t outputs) {
  Matrix w(inputs, outputs);
  for (std::size_t i = 0; i < inputs; ++i) {
    for (std::size_t o = 0; o < outputs; ++o) w.set(i, o, weight(i, first + o));
  }
  return w;
}

std::vector<float> some_rows(std::size_t rows, std::size_t inputs) {
  std::vector<float> a(rows * inputs);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 31 % 23) / 23 - 0.5f;
  return a;
}

TEST_CASE("multiply: agrees with a plain product in double precision, at sizes off every edge") {
  for (const std::size_t inputs : {1u, 127u, 128u, 300u}) {
    for (const std::size_t outputs : {1u, 31u, 32u, 70u}) {
      for (const std::size_t rows : {1u, 6u, 8u, 19u}) {
        const Matrix w = columns(inputs, 0, outputs);
        const std::vector<float> a = some_rows(rows, inputs);
        std::vector<float> out(rows * outputs, NAN);
        w.multiply(a.data(), rows, out.data());
        double worst = 0;
        for (std::size_t r = 0; r < rows; ++r) {
          for (std::size_t o = 0; o < outputs; ++o) {
            double sum = 0;
            double magnitude = 0;
            for (std::size_t i = 0; i < inputs; ++i) {
              const double term = static_cast<double>(a[r * inputs + i]) * weight(i, o);
              sum += term;
              magnitude += std::fabs(term);
            }
            const double allowed =
                static_cast<double>(Matrix::summands(inputs) + 1) * 0x1p-24 * magnitude;
            const double error = std::fabs(static_cast<double>(out[r * outputs + o]) - sum);
            worst = std::fmax(worst, error - allowed);
            CHECK(!std::isnan(out[r * outputs + o]));
          }
        }
        CHECK(worst <= 0);
      }
    }
  }
}

TEST_CASE("multiply: some of the columns and some of the rows give bit for bit the same elements") {
  constexpr std::size_t kInputs = 200;
  constexpr std::size_t kOutputs = 96;
  constexpr std::size_t kRows = 21;
  const std::vector<float> a = some_rows(kRows, kInputs);
  std::vector<float> whole(kRows * kOutputs);
  columns(kInputs, 0, kOutputs).multiply(a.data(), kRows, whole.data());

  constexpr std::size_t kFirst = 37;
  constexpr std::size_t kWidth = 40;
  constexpr std::size_t kFirstRow = 3;
  std::vector<float> part((kRows - kFirstRow) * kWidth);
  columns(kInputs, kFirst, kWidth)
      .multiply(a.data() + kFirstRow * kInputs, kRows - kFirstRow, part.data());
  bool same = true;
  for (std::size_t r = kFirstRow; r < kRows; ++r) {
    for (std::size_t o = 0; o < kWidth; ++o) {
      same = same && part[(r - kFirstRow) * kWidth + o] == whole[r * kOutputs + kFirst + o];
    }
  }
  CHECK(same);
}

}  // namespace
}  // namespace example
