// The reference here is written differently on purpose: a table of all values of a type, searched
// for the two neighbours of the float, in double arithmetic.
#include "comm/float_types.h"

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "comm/element.h"

namespace {

using comm::bf16;
using comm::f16;
using comm::f8e4m3;
using comm::f8e5m2;

static_assert(std::is_trivial_v<bf16> && sizeof(bf16) == 2);
static_assert(std::is_trivial_v<f16> && sizeof(f16) == 2);
static_assert(std::is_trivial_v<f8e4m3> && sizeof(f8e4m3) == 1);
static_assert(std::is_trivial_v<f8e5m2> && sizeof(f8e5m2) == 1);
static_assert(comm::element_type<bf16> == comm::DataType::bf16);
static_assert(comm::element_type<f8e5m2> == comm::DataType::f8e5m2);
static_assert(bf16(1.5F).bits == 0x3fc0 && static_cast<float>(bf16(1.5F)) == 1.5F);
static_assert(f16(65504.0F).bits == 0x7bff && f16::from_bits(0x3c00) == 1.0F);
static_assert(f8e4m3(1e9F).bits == 0x7e && f8e5m2(1e9F).bits == 0x7c);

float float_of(std::uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}

/// What the bits mean, from the definition of the format.
double meaning(std::uint32_t bits, int exponent_bits, int mantissa_bits, bool has_infinity) {
  const std::uint32_t mantissa = bits & ((1U << mantissa_bits) - 1);
  const std::uint32_t exponent = (bits >> mantissa_bits) & ((1U << exponent_bits) - 1);
  const double sign = (bits >> (mantissa_bits + exponent_bits)) != 0 ? -1 : 1;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const bool is_last = exponent == (1U << exponent_bits) - 1;
  const bool all_ones = is_last && mantissa == (1U << mantissa_bits) - 1;
  if (has_infinity && is_last) return mantissa == 0 ? sign * HUGE_VAL : std::nan("");
  if (!has_infinity && all_ones) return std::nan("");
  const double fraction = mantissa / std::ldexp(1.0, mantissa_bits);
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1 + fraction, static_cast<int>(exponent) - bias);
}

template <class T>
struct Format;
template <>
struct Format<bf16> {
  static constexpr int e = 8, m = 7;
  static constexpr bool inf = true;
};
template <>
struct Format<f16> {
  static constexpr int e = 5, m = 10;
  static constexpr bool inf = true;
};
template <>
struct Format<f8e4m3> {
  static constexpr int e = 4, m = 3;
  static constexpr bool inf = false;
};
template <>
struct Format<f8e5m2> {
  static constexpr int e = 5, m = 2;
  static constexpr bool inf = true;
};

template <class T>
class Reference {
  using F = Format<T>;

 public:
  Reference() {
    for (std::uint32_t bits = 0; bits < 1U << (F::e + F::m); ++bits) {
      const double value = meaning(bits, F::e, F::m, F::inf);
      if (std::isnan(value)) continue;
      if (std::isinf(value)) continue;
      values_.push_back(value);
    }
  }

  /// The bits that `value`, not NaN, rounds to.
  std::uint32_t round(float value) const {
    const std::uint32_t sign = std::signbit(value) ? 1U << (F::e + F::m) : 0;
    const double x = std::fabs(static_cast<double>(value));
    const auto above = std::upper_bound(values_.begin(), values_.end(), x);
    const auto low = static_cast<std::uint32_t>(above - values_.begin()) - 1;
    const double step = values_.back() - values_[values_.size() - 2];
    const double next = above == values_.end() ? values_.back() + step : *above;
    const double to_low = x - values_[low];
    const double to_next = next - x;
    const bool up = to_next < to_low || (to_next == to_low && low % 2 == 1);
    const std::uint32_t rounded = low + (up ? 1 : 0);
    if (!F::inf && rounded >= values_.size())
      return sign | (static_cast<std::uint32_t>(values_.size()) - 1);
    return sign | rounded;
  }

 private:
  std::vector<double> values_;  // Finite, not negative, ascending: the index is the bits.
};

template <class T>
std::uint32_t bits_of(float value) {
  return T(value).bits;
}

template <class T>
void check(float value, const Reference<T>& reference, std::uint64_t& wrong) {
  if (std::isnan(value)) {
    wrong += !std::isnan(static_cast<float>(T(value)));
    wrong += std::signbit(static_cast<float>(T(value))) != std::signbit(value);
  } else {
    wrong += bits_of<T>(value) != reference.round(value);
  }
}

}  // namespace

TEST_CASE_TEMPLATE("small floats: every bit pattern converts to the float it means", T, bf16, f16,
                   f8e4m3, f8e5m2) {
  using F = Format<T>;
  for (std::uint32_t bits = 0; bits < 1U << (8 * sizeof(T)); ++bits) {
    const auto value = static_cast<float>(T::from_bits(static_cast<decltype(T::bits)>(bits)));
    const double expected = meaning(bits, F::e, F::m, F::inf);
    if (std::isnan(expected)) {
      CHECK(std::isnan(value));
    } else {
      CHECK(static_cast<double>(value) == expected);
      CHECK(std::signbit(value) == std::signbit(expected));
      CHECK(bits_of<T>(value) == bits);
    }
  }
}

TEST_CASE_TEMPLATE("small floats: each float of a dense sample rounds to nearest, ties to even", T,
                   bf16, f16, f8e4m3, f8e5m2) {
  const Reference<T> reference;
  std::uint64_t wrong = 0;
  // Every exponent and sign with the upper mantissa bits exhaustively, and below them what decides
  // a tie: nothing, one, half, half and one, all.
  for (std::uint32_t upper = 0; upper < 1U << 20; ++upper) {
    for (const std::uint32_t lower : {0x000U, 0x001U, 0x7ffU, 0x800U, 0x801U, 0xfffU}) {
      check<T>(float_of((upper << 12) | lower), reference, wrong);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("bf16: NaN stays NaN, ties go to even, the largest float overflows to infinity") {
  CHECK(std::isnan(static_cast<float>(bf16(float_of(0x7f800001)))));
  CHECK(std::isnan(static_cast<float>(bf16(float_of(0xffffffff)))));
  CHECK(bf16(float_of(0x3f808000)).bits == 0x3f80);
  CHECK(bf16(float_of(0x3f818000)).bits == 0x3f82);
  CHECK(std::isinf(static_cast<float>(bf16(std::numeric_limits<float>::max()))));
  CHECK(bf16(-0.0F).bits == 0x8000);
  CHECK(bf16(std::numeric_limits<float>::denorm_min()).bits == 0);
}

TEST_CASE("f8e4m3: infinity and what is too large saturate to 448") {
  CHECK(static_cast<float>(f8e4m3(std::numeric_limits<float>::infinity())) == 448.0F);
  CHECK(static_cast<float>(f8e4m3(-std::numeric_limits<float>::infinity())) == -448.0F);
  CHECK(static_cast<float>(f8e4m3(465.0F)) == 448.0F);
}
