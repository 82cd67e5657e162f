#pragma once

/// What the reductions mean, for every element type: 16- and 8-bit floats are summed in `float` and
/// rounded once, contributions are taken in rank order, integers wrap.

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "comm/data_type.h"
#include "comm/float_types.h"
#include "comm/reduce_op.h"

namespace example {

/// One rank's contribution.
struct Contribution {
  const void* data;
  double factor;  ///< Of a pre-multiplied sum, else 1.
};

template <class T>
using Wide = std::conditional_t<std::is_integral_v<T> || std::is_same_v<T, double>, T, float>;

template <class T>
T combine_two(comm::ReduceOp::Kind kind, T a, T b) {
  using Kind = comm::ReduceOp::Kind;
  switch (kind) {
    case Kind::min: return b < a ? b : a;
    case Kind::max: return b > a ? b : a;
    case Kind::prod:
      // By way of unsigned numbers, which may overflow.
      if constexpr (std::is_integral_v<T>)
        return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
      else
        return a * b;
    case Kind::sum:
    case Kind::avg:
    case Kind::premul_sum: break;
  }
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  else
    return a + b;
}

template <class T>
void combine_as(comm::ReduceOp::Kind kind, const std::vector<Contribution>& from, std::size_t count,
                T* out) {
  using W = Wide<T>;
  auto value = [&](const Contribution& c, std::size_t i) {
    const W element = static_cast<W>(static_cast<const T*>(c.data)[i]);
    if (kind != comm::ReduceOp::Kind::premul_sum) return element;
    T factor;  // Rounded to the element type, once.
    if constexpr (std::is_arithmetic_v<T>)
      factor = static_cast<T>(c.factor);
    else
      factor = T(static_cast<float>(c.factor));
    return combine_two<W>(comm::ReduceOp::Kind::prod, element, static_cast<W>(factor));
  };
  for (std::size_t i = 0; i < count; ++i) {
    W all = value(from[0], i);
    for (std::size_t r = 1; r < from.size(); ++r)
      all = combine_two<W>(kind, all, value(from[r], i));
    if (kind == comm::ReduceOp::Kind::avg) all = static_cast<W>(all / static_cast<W>(from.size()));
    out[i] = static_cast<T>(all);
  }
}

inline void combine(comm::DataType type, comm::ReduceOp::Kind kind,
                    const std::vector<Contribution>& from, std::size_t count, void* out) {
  auto as = [&]<class T>(T*) { combine_as<T>(kind, from, count, static_cast<T*>(out)); };
  switch (type) {
    case comm::DataType::i8: return as(static_cast<std::int8_t*>(out));
    case comm::DataType::u8: return as(static_cast<std::uint8_t*>(out));
    case comm::DataType::i32: return as(static_cast<std::int32_t*>(out));
    case comm::DataType::u32: return as(static_cast<std::uint32_t*>(out));
    case comm::DataType::i64: return as(static_cast<std::int64_t*>(out));
    case comm::DataType::u64: return as(static_cast<std::uint64_t*>(out));
    case comm::DataType::f16: return as(static_cast<comm::f16*>(out));
    case comm::DataType::bf16: return as(static_cast<comm::bf16*>(out));
    case comm::DataType::f32: return as(static_cast<float*>(out));
    case comm::DataType::f64: return as(static_cast<double*>(out));
    case comm::DataType::f8e4m3: return as(static_cast<comm::f8e4m3*>(out));
    case comm::DataType::f8e5m2: return as(static_cast<comm::f8e5m2*>(out));
  }
}

}  // namespace example
