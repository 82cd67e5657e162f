#pragma once

/// `bf16`, `f16`, `f8e4m3` and `f8e5m2` are the small floating-point types of a GPU for code that
/// has no CUDA header: storage of 16 or 8 bits, with the same bits as `__nv_bfloat16`, `__half`,
/// `__nv_fp8_e4m3` and `__nv_fp8_e5m2`. They hold; they do not compute: convert to `float` first.
///
///     comm::bf16 x(1.5f);
///     float y = x;                                   // exact
///     auto z = comm::f16::from_bits(0x3c00);         // 1
///
/// From `float` they round to nearest, ties to even, once. NaN stays NaN, subnormals are kept, and
/// what is too large becomes infinity. `f8e4m3` has no infinity: what is too large, infinity
/// included, becomes the largest finite value, ±448, as in the constructors of `__nv_fp8_e4m3`.
///
/// Everything is `constexpr`, always inlined, and free of branches that would keep a loop from being
/// vectorised.
/// Trivial types: a default-initialised one is uninitialised.

#include <cstdint>

#include "comm/language.h"

namespace comm {

namespace detail {

/// A format of 1 sign bit, `kExponentBits` and `kMantissaBits`. `kHasInfinity` says that the largest
/// exponent means infinity or NaN, as in IEEE 754; otherwise only all ones are NaN.
template <int kExponentBits, int kMantissaBits, bool kHasInfinity>
struct SmallFloat {
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr int kShift = 23 - kMantissaBits;
  static constexpr std::uint32_t kMagnitude = (1U << (kExponentBits + kMantissaBits)) - 1;
  static constexpr int kSignShift = 31 - kExponentBits - kMantissaBits;
  static constexpr std::uint32_t kInfinity = ((1U << kExponentBits) - 1) << kMantissaBits;
  static constexpr std::uint32_t kQuietNan =
      kHasInfinity ? kInfinity | (1U << (kMantissaBits - 1)) : kMagnitude;
  static constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - kBias) << 23;
  static constexpr std::uint32_t kSmallestNormal = kRebias + (1U << 23);

  [[gnu::always_inline]] static constexpr float as_float(std::uint32_t bits) {
    return __builtin_bit_cast(float, bits);
  }
  [[gnu::always_inline]] static constexpr std::uint32_t as_bits(float value) {
    return __builtin_bit_cast(std::uint32_t, value);
  }

  [[gnu::always_inline]] static constexpr float decode(std::uint32_t bits) {
    const std::uint32_t magnitude = bits & kMagnitude;
    const std::uint32_t sign = (bits & (kMagnitude + 1)) << kSignShift;
    const std::uint32_t widened = magnitude << kShift;
    // A subnormal has its bits below those of the smallest normal: put them there, subtract it.
    const std::uint32_t subnormal =
        as_bits(as_float(kSmallestNormal + widened) - as_float(kSmallestNormal));
    const std::uint32_t special = 0x7f800000U | (widened & 0x007fffffU);
    const bool is_special = kHasInfinity ? magnitude >= kInfinity : magnitude == kMagnitude;
    std::uint32_t result = magnitude >= (1U << kMantissaBits) ? widened + kRebias : subnormal;
    result = is_special ? special : result;
    // As the processor's own conversions, which turn a signalling NaN into a quiet one.
    result = result > 0x7f800000U ? result | 0x00400000U : result;
    return as_float(result | sign);
  }

  [[gnu::always_inline]] static constexpr std::uint32_t encode(float value) {
    const std::uint32_t all = as_bits(value);
    const std::uint32_t magnitude = all & 0x7fffffffU;
    const std::uint32_t sign = (all >> kSignShift) & (kMagnitude + 1);
    // A number whose last bit is worth the smallest subnormal: adding it makes the adder round.
    constexpr std::uint32_t kRounder = static_cast<std::uint32_t>(127 + 24 - kBias - kMantissaBits)
                                       << 23;
    const std::uint32_t small = as_bits(as_float(magnitude) + as_float(kRounder)) - kRounder;
    const std::uint32_t half = (1U << (kShift - 1)) - 1 + ((magnitude >> kShift) & 1);
    std::uint32_t normal = (magnitude - kRebias + half) >> kShift;
    constexpr std::uint32_t kTooLarge = kHasInfinity ? kInfinity : kMagnitude - 1;
    normal = normal > kTooLarge ? kTooLarge : normal;
    std::uint32_t result = magnitude < kSmallestNormal ? small : normal;
    const std::uint32_t payload =
        kHasInfinity ? (magnitude >> kShift) & (kInfinity ^ kMagnitude) : 0;
    result = magnitude > 0x7f800000U ? kQuietNan | payload : result;
    return result | sign;
  }
};

using Float16 = SmallFloat<5, 10, true>;
using Float8E4M3 = SmallFloat<4, 3, false>;
using Float8E5M2 = SmallFloat<5, 2, true>;

/// The upper half of a `float`: same exponent, so there are no subnormals to treat apart.
struct BFloat16 {
  [[gnu::always_inline]] static constexpr float decode(std::uint32_t bits) {
    return __builtin_bit_cast(float, bits << 16);
  }
  [[gnu::always_inline]] static constexpr std::uint32_t encode(float value) {
    const std::uint32_t all = __builtin_bit_cast(std::uint32_t, value);
    const std::uint32_t rounded = (all + 0x7fffU + ((all >> 16) & 1)) >> 16;
    return (all & 0x7fffffffU) > 0x7f800000U ? (all >> 16) | 0x40U : rounded;
  }
};

}  // namespace detail

struct bf16 {
  std::uint16_t bits;

  bf16() = default;
  constexpr explicit bf16(float value)
      : bits(static_cast<std::uint16_t>(detail::BFloat16::encode(value))) {}
  constexpr operator float() const { return detail::BFloat16::decode(bits); }  // NOLINT: exact

  static constexpr bf16 from_bits(std::uint16_t bits) { return __builtin_bit_cast(bf16, bits); }
};

struct f16 {
  std::uint16_t bits;

  f16() = default;
  constexpr explicit f16(float value)
      : bits(static_cast<std::uint16_t>(detail::Float16::encode(value))) {}
  constexpr operator float() const { return detail::Float16::decode(bits); }  // NOLINT: exact

  static constexpr f16 from_bits(std::uint16_t bits) { return __builtin_bit_cast(f16, bits); }
};

struct f8e4m3 {
  std::uint8_t bits;

  f8e4m3() = default;
  constexpr explicit f8e4m3(float value)
      : bits(static_cast<std::uint8_t>(detail::Float8E4M3::encode(value))) {}
  constexpr operator float() const { return detail::Float8E4M3::decode(bits); }  // NOLINT: exact

  static constexpr f8e4m3 from_bits(std::uint8_t bits) { return __builtin_bit_cast(f8e4m3, bits); }
};

struct f8e5m2 {
  std::uint8_t bits;

  f8e5m2() = default;
  constexpr explicit f8e5m2(float value)
      : bits(static_cast<std::uint8_t>(detail::Float8E5M2::encode(value))) {}
  constexpr operator float() const { return detail::Float8E5M2::decode(bits); }  // NOLINT: exact

  static constexpr f8e5m2 from_bits(std::uint8_t bits) { return __builtin_bit_cast(f8e5m2, bits); }
};

}  // namespace comm
