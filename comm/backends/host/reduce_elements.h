#pragma once

/// How the elements of a reduction are stored, and how they are computed with; a part of
/// reduce_impl.h. A `Unit` is what a loop takes at a time: `kPerUnit` elements, which become one
/// `Wide`, or two where a word holds two. Everything is forced inline and compiled for
/// `COMM_HOST_TARGET`.

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "comm/float_types.h"

#if defined(COMM_HOST_HAS_F16C)
#include <immintrin.h>
#endif

#define COMM_HOST_INLINE COMM_HOST_TARGET [[gnu::always_inline]] static inline

namespace comm::detail::host {
namespace {

/// One element at a time.
template <class StoredType, class WideType>
struct Single {
  using Stored = StoredType;
  using Wide = WideType;
  using Unit [[gnu::may_alias]] = Stored;
  static constexpr std::size_t kPerUnit = 1;
  static constexpr std::size_t kLanes = 1;
};

template <class T>
struct Integer : Single<std::make_unsigned_t<T>, std::make_unsigned_t<T>> {
  using Wide = std::make_unsigned_t<T>;
  template <std::size_t>
  COMM_HOST_INLINE Wide load(Wide s) {
    return s;
  }
  COMM_HOST_INLINE Wide store(const Wide (&w)[1]) { return w[0]; }
  COMM_HOST_INLINE Wide factor(double f) {
    if (!(f > -9.2e18)) return static_cast<Wide>(INT64_MIN);
    if (std::is_unsigned_v<T> && f >= 9.2e18 && f < 1.8e19) return static_cast<Wide>(f);
    return static_cast<Wide>(f < 9.2e18 ? std::llrint(f) : INT64_MAX);
  }
  COMM_HOST_INLINE Wide divide(Wide w, int n) {
    return static_cast<Wide>(static_cast<T>(w) / static_cast<T>(n));
  }
  COMM_HOST_INLINE Wide lesser(Wide a, Wide b) {
    return static_cast<T>(b) < static_cast<T>(a) ? b : a;
  }
  COMM_HOST_INLINE Wide greater(Wide a, Wide b) {
    return static_cast<T>(a) < static_cast<T>(b) ? b : a;
  }
};

/// Arithmetic of floats; a `Wide` may be a vector of them.
template <class Wide, class Scalar>
struct FloatArithmetic {
  COMM_HOST_INLINE Wide divide(Wide w, int n) { return w / static_cast<Scalar>(n); }
  COMM_HOST_INLINE Wide lesser(Wide a, Wide b) { return ((b < a) | (b != b)) ? b : a; }
  COMM_HOST_INLINE Wide greater(Wide a, Wide b) { return ((a < b) | (b != b)) ? b : a; }
};

template <class T>
struct Float : Single<T, T>, FloatArithmetic<T, T> {
  template <std::size_t>
  COMM_HOST_INLINE T load(T s) {
    return s;
  }
  COMM_HOST_INLINE T store(const T (&w)[1]) { return w[0]; }
  COMM_HOST_INLINE T factor(double f) { return static_cast<T>(f); }
};

/// Two in a word of 32 bits, where each is half of a float already: nothing has to be widened and
/// packed again, which would be most of the work.
struct BFloat16Pair : FloatArithmetic<float, float> {
  using Stored = std::uint16_t;
  using Wide = float;
  using Unit [[gnu::may_alias, gnu::aligned(2)]] = std::uint32_t;
  static constexpr std::size_t kPerUnit = 2;
  static constexpr std::size_t kLanes = 2;

  template <std::size_t kLane>
  COMM_HOST_INLINE float load(std::uint32_t word) {
    return __builtin_bit_cast(float, kLane == 0 ? word << 16 : word & 0xffff0000U);
  }
  COMM_HOST_INLINE std::uint32_t store(const float (&w)[2]) {
    return rounded(w[0]) >> 16 | (rounded(w[1]) & 0xffff0000U);
  }
  COMM_HOST_INLINE float factor(double f) {
    return BFloat16::decode(BFloat16::encode(static_cast<float>(f)));
  }

 private:
  /// `BFloat16::encode`, but in the upper half.
  COMM_HOST_INLINE std::uint32_t rounded(float value) {
    const auto all = __builtin_bit_cast(std::uint32_t, value);
    const std::uint32_t number = all + 0x7fffU + ((all >> 16) & 1);
    return value != value ? all | 0x00400000U : number;
  }
};

#if defined(COMM_HOST_HAS_F16C)
/// Eight at a time, by the processor's own conversions.
using EightFloats [[gnu::vector_size(32)]] = float;

struct Float16Eight : FloatArithmetic<EightFloats, float> {
  using Stored = std::uint16_t;
  using Wide = EightFloats;
  using Unit [[gnu::vector_size(16), gnu::may_alias, gnu::aligned(2)]] = long long;
  static constexpr std::size_t kPerUnit = 8;
  static constexpr std::size_t kLanes = 1;

  template <std::size_t>
  COMM_HOST_INLINE Wide load(__m128i s) {
    return _mm256_cvtph_ps(s);
  }
  COMM_HOST_INLINE __m128i store(const Wide (&w)[1]) {
    return _mm256_cvtps_ph(w[0], _MM_FROUND_TO_NEAREST_INT);
  }
  COMM_HOST_INLINE Wide factor(double f) {
    return Wide{} + Float16::decode(Float16::encode(static_cast<float>(f)));
  }
};
#endif

}  // namespace
}  // namespace comm::detail::host
