#pragma once

/// Inputs whose results are known without a second implementation of the collective: small integers,
/// so that sums are exact in every type that can hold them, and what is not exact is rounded once.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "bench/perf/operation.h"
#include "comm/data_type.h"
#include "comm/float_types.h"
#include "comm/reduce_op.h"

namespace comm::perf {

/// Calls `f(T{})` with the element type that `type` names.
template <class F>
decltype(auto) with_type(DataType type, F&& f) {
  switch (type) {
    case DataType::i8: return f(std::int8_t{});
    case DataType::u8: return f(std::uint8_t{});
    case DataType::i32: return f(std::int32_t{});
    case DataType::u32: return f(std::uint32_t{});
    case DataType::i64: return f(std::int64_t{});
    case DataType::u64: return f(std::uint64_t{});
    case DataType::f16: return f(f16{});
    case DataType::bf16: return f(bf16{});
    case DataType::f64: return f(double{});
    case DataType::f8e4m3: return f(f8e4m3{});
    case DataType::f8e5m2: return f(f8e5m2{});
    case DataType::f32: break;
  }
  return f(float{});
}

template <class T>
inline constexpr bool is_small_float = std::is_same_v<T, bf16> || std::is_same_v<T, f16> ||
                                       std::is_same_v<T, f8e4m3> || std::is_same_v<T, f8e5m2>;

template <class T>
T from_double(double value) {
  if constexpr (is_small_float<T>)
    return T(static_cast<float>(value));
  else
    return static_cast<T>(value);
}

template <class T>
double to_double(T value) {
  if constexpr (is_small_float<T>)
    return static_cast<double>(static_cast<float>(value));
  else
    return static_cast<double>(value);
}

/// What `rank` contributes at `index`. For a product, mostly ones: 64 ranks must not overflow i8.
inline double contribution(int rank, std::size_t index, ReduceOp op) {
  const std::size_t mixed = index * 7 + static_cast<std::size_t>(rank) * 3;
  if (op == ReduceOp::prod) return mixed % 16 == 0 ? 2 : 1;
  return static_cast<double>(mixed % 5);
}

/// The reduction of all ranks' contributions at `index`.
inline double reduced(int ranks, std::size_t index, ReduceOp op, bool is_integer) {
  double result = contribution(0, index, op);
  for (int r = 1; r < ranks; ++r) {
    const double c = contribution(r, index, op);
    switch (op.kind()) {
      case ReduceOp::Kind::prod: result *= c; break;
      case ReduceOp::Kind::min: result = std::min(result, c); break;
      case ReduceOp::Kind::max: result = std::max(result, c); break;
      default: result += c; break;
    }
  }
  if (op == ReduceOp::avg) result /= ranks;
  return op == ReduceOp::avg && is_integer ? std::trunc(result) : result;
}

/// How far an average may be from its exact value, relative to it: NCCL scales by 1/n in the
/// element type and then adds, so an error of n roundings is right.
template <class T>
double average_tolerance(int ranks) {
  double epsilon = 0;
  if constexpr (std::is_same_v<T, double>) epsilon = 0x1p-52;
  if constexpr (std::is_same_v<T, float>) epsilon = 0x1p-23;
  if constexpr (std::is_same_v<T, f16>) epsilon = 0x1p-10;
  if constexpr (std::is_same_v<T, bf16>) epsilon = 0x1p-7;
  if constexpr (std::is_same_v<T, f8e4m3>) epsilon = 0x1p-3;
  if constexpr (std::is_same_v<T, f8e5m2>) epsilon = 0x1p-2;
  return epsilon * (ranks + 1);
}

}  // namespace comm::perf
