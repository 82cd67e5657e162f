#pragma once

/// What collectives should give, computed plainly in one process: contributions that depend on rank
/// and index alone, and a reduction in rank order.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "comm/element.h"
#include "comm/float_types.h"
#include "comm/reduce_op.h"

namespace reference {

template <class T>
inline constexpr bool is_small_float =
    comm::detail::OneOf<T, comm::bf16, comm::f16, comm::f8e4m3, comm::f8e5m2>;

/// The type that sums of `T` are made in.
template <class T>
using Wide = std::conditional_t<is_small_float<T>, float, T>;

/// Differs by rank and index, and for integers uses the whole range, so that sums wrap.
template <class T>
T value(int rank, std::size_t i) {
  std::uint64_t h =
      (i + 1) * 0x9e3779b97f4a7c15ULL + static_cast<std::uint64_t>(rank) * 0x2545f491ULL;
  h ^= h >> 29;
  h *= 0xbf58476d1ce4e5b9ULL;
  h ^= h >> 32;
  if constexpr (std::is_integral_v<T>) return static_cast<T>(h);
  const float x = static_cast<float>(static_cast<int>(h % 2001) - 1000) / 250.0F;
  if constexpr (std::is_same_v<T, double>)
    return static_cast<double>(x) + 1e-9 * static_cast<double>(h % 1000);
  return T(x);
}

template <class T>
Wide<T> wide(T x) {
  if constexpr (is_small_float<T>)
    return static_cast<float>(x);
  else
    return x;
}

template <class T>
T narrow(Wide<T> x) {
  return T(x);
}

template <class W>
W add(W a, W b) {
  if constexpr (std::is_integral_v<W>) {
    using U = std::make_unsigned_t<W>;
    return static_cast<W>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  } else {
    return a + b;
  }
}

template <class W>
W multiply(W a, W b) {
  if constexpr (std::is_integral_v<W>) {
    using U = std::uint64_t;
    return static_cast<W>(static_cast<U>(a) * static_cast<U>(b));
  } else {
    return a * b;
  }
}

/// Factors that are exact in every floating-point type, and not integers, so that rounding shows.
inline double factor(int rank) {
  return rank % 2 == 0 ? 2.5 : -0.75;
}

template <class T>
Wide<T> factor_as(double f) {
  if constexpr (std::is_integral_v<T>) {
    const auto rounded = static_cast<std::int64_t>(std::nearbyint(f));
    return static_cast<T>(rounded);
  } else {
    return wide<T>(T(static_cast<float>(f)));
  }
}

/// The reduction of element i over `size` ranks.
template <class T>
T reduced(comm::ReduceOp::Kind kind, int size, std::size_t i) {
  using Kind = comm::ReduceOp::Kind;
  using W = Wide<T>;
  W all{};
  for (int r = 0; r < size; ++r) {
    W x = wide<T>(value<T>(r, i));
    if (kind == Kind::premul_sum) x = multiply<W>(x, factor_as<T>(factor(r)));
    if (r == 0)
      all = x;
    else if (kind == Kind::prod)
      all = multiply<W>(all, x);
    else if (kind == Kind::min)
      all = x < all ? x : all;
    else if (kind == Kind::max)
      all = all < x ? x : all;
    else
      all = add<W>(all, x);
  }
  if (kind == Kind::avg) all = static_cast<W>(all / static_cast<W>(size));
  return narrow<T>(all);
}

inline comm::ReduceOp op_of(comm::ReduceOp::Kind kind, int rank) {
  using Kind = comm::ReduceOp::Kind;
  switch (kind) {
    case Kind::sum: return comm::ReduceOp::sum;
    case Kind::prod: return comm::ReduceOp::prod;
    case Kind::min: return comm::ReduceOp::min;
    case Kind::max: return comm::ReduceOp::max;
    case Kind::avg: return comm::ReduceOp::avg;
    case Kind::premul_sum: break;
  }
  return comm::ReduceOp::premul_sum(factor(rank));
}

inline constexpr comm::ReduceOp::Kind kKinds[] = {
    comm::ReduceOp::Kind::sum, comm::ReduceOp::Kind::prod, comm::ReduceOp::Kind::min,
    comm::ReduceOp::Kind::max, comm::ReduceOp::Kind::avg,  comm::ReduceOp::Kind::premul_sum};

template <class T>
bool same_bits(const T* a, const T* b, std::size_t n) {
  return n == 0 || std::memcmp(a, b, n * sizeof(T)) == 0;
}

template <class T>
std::vector<T> contribution(int rank, std::size_t n) {
  std::vector<T> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = value<T>(rank, i);
  return v;
}

}  // namespace reference
