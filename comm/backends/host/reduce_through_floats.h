#pragma once

/// Reductions of the small floats that the processor does not convert itself; a part of reduce_impl.h.
/// A conversion takes dozens of instructions. So that they are not in every reduction of every type,
/// a block of elements is converted to floats by one function for its format, computed with by one
/// for its kind, and converted back by another: a few calls for hundreds of elements. The arithmetic
/// goes over a whole block always, so each element meets the same instructions wherever it lies.

#include <algorithm>
#include <cstddef>

#include "comm/backends/host/reduce_elements.h"

namespace comm::detail::host {
namespace {

constexpr std::size_t kFloatBlock = 256;

/// A format that is stored as `Bits`.
template <class Format, class Bits>
struct Conversion {
  using Stored [[gnu::may_alias]] = Bits;

  COMM_HOST_TARGET [[gnu::noinline]] static void decode(float* to, const void* from,
                                                        std::size_t count) {
    const auto* in = static_cast<const Stored*>(from);
    COMM_HOST_INDEPENDENT
    for (std::size_t j = 0; j < count; ++j) to[j] = Format::decode(in[j]);
  }
  COMM_HOST_TARGET [[gnu::noinline]] static void encode(void* to, const float* from,
                                                        std::size_t count) {
    auto* out = static_cast<Stored*>(to);
    COMM_HOST_INDEPENDENT
    for (std::size_t j = 0; j < count; ++j) out[j] = static_cast<Bits>(Format::encode(from[j]));
  }
  COMM_HOST_TARGET static float rounded(double factor) {
    return Format::decode(Format::encode(static_cast<float>(factor)));
  }
};

/// What is done with a block of floats.
template <ReduceOp::Kind kKind>
struct FloatBlock {
  using Kind = ReduceOp::Kind;
  using Arithmetic = FloatArithmetic<float, float>;

  COMM_HOST_INLINE float combined(float a, float b, [[maybe_unused]] float factor) {
    if constexpr (kKind == Kind::prod) return a * b;
    if constexpr (kKind == Kind::min) return Arithmetic::lesser(a, b);
    if constexpr (kKind == Kind::max) return Arithmetic::greater(a, b);
    if constexpr (kKind == Kind::premul_sum) return a + b * factor;
    return a + b;
  }
  COMM_HOST_TARGET [[gnu::noinline]] static void combine(float* sum, const float* more,
                                                         float factor) {
    COMM_HOST_INDEPENDENT
    for (std::size_t j = 0; j < kFloatBlock; ++j) sum[j] = combined(sum[j], more[j], factor);
  }
};

COMM_HOST_TARGET [[gnu::noinline, gnu::unused]] void scale(float* block, float factor) {
  for (std::size_t j = 0; j < kFloatBlock; ++j) block[j] = block[j] * factor;
}
COMM_HOST_TARGET [[gnu::noinline, gnu::unused]] void divide(float* block, float divisor) {
  for (std::size_t j = 0; j < kFloatBlock; ++j) block[j] = block[j] / divisor;
}

template <class C, ReduceOp::Kind kKind>
COMM_HOST_TARGET void reduce_through_floats(void* destination, const void* const* sources, int n,
                                            std::size_t count, const double* factors) {
  constexpr bool kIsScaled = kKind == ReduceOp::Kind::premul_sum;
  constexpr std::size_t kSize = sizeof(typename C::Stored);
  alignas(64) float sum[kFloatBlock] = {};
  alignas(64) float more[kFloatBlock] = {};
  for (std::size_t i = 0; i < count; i += kFloatBlock) {
    const std::size_t m = std::min(kFloatBlock, count - i);
    const auto source = [&](int s) { return static_cast<const char*>(sources[s]) + i * kSize; };
    C::decode(sum, source(0), m);
    if constexpr (kIsScaled) scale(sum, C::rounded(factors[0]));
    for (int s = 1; s < n; ++s) {
      C::decode(more, source(s), m);
      FloatBlock<kKind>::combine(sum, more, kIsScaled ? C::rounded(factors[s]) : 0.0F);
    }
    if constexpr (kKind == ReduceOp::Kind::avg) divide(sum, static_cast<float>(n));
    C::encode(static_cast<char*>(destination) + i * kSize, sum, m);
  }
}

template <class C>
constexpr void fill_through_floats(Reduction (&row)[kKindCount]) {
  using Kind = ReduceOp::Kind;
  row[static_cast<int>(Kind::sum)] = reduce_through_floats<C, Kind::sum>;
  row[static_cast<int>(Kind::prod)] = reduce_through_floats<C, Kind::prod>;
  row[static_cast<int>(Kind::min)] = reduce_through_floats<C, Kind::min>;
  row[static_cast<int>(Kind::max)] = reduce_through_floats<C, Kind::max>;
  row[static_cast<int>(Kind::avg)] = reduce_through_floats<C, Kind::avg>;
  row[static_cast<int>(Kind::premul_sum)] = reduce_through_floats<C, Kind::premul_sum>;
}

}  // namespace
}  // namespace comm::detail::host
