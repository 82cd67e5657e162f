#pragma once

/// What ranks contribute in the contract suite, and what must come of it. The numbers are so small
/// that every type holds every sum exactly, whatever the order; worlds of up to 5 ranks stay exact
/// in FP8 too.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "comm/data_type.h"
#include "comm/element.h"
#include "comm/float_types.h"
#include "comm/reduce_op.h"

namespace comm::testing {

/// Moved, never reduced: 12 bytes that are no element.
struct Triple {
  std::int32_t a, b, c;
};

template <class T>
inline constexpr bool is_small_float = sizeof(T) == 1 && !std::is_integral_v<T>;

template <class T>
T from_int(int value) {
  if constexpr (std::is_same_v<T, Triple>)
    return Triple{value, value + 1, -value};
  else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::byte>)
    return static_cast<T>(value);
  else
    return T(static_cast<float>(value));
}

/// 0 or 1 where a sum could outgrow an 8-bit float, else 1, 2 or 3; for a product 1 or 2.
template <class T>
int summand(int rank, std::size_t i, ReduceOp op = ReduceOp::sum) {
  const int mixed = rank * 7 + static_cast<int>(i % 1000);
  if (op == ReduceOp::prod) return 1 + mixed % 2;
  return is_small_float<T> ? mixed % 2 : 1 + mixed % 3;
}

template <class T>
[[gnu::noinline]] std::vector<T> contribution(int rank, std::size_t count,
                                              ReduceOp op = ReduceOp::sum) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = from_int<T>(summand<T>(rank, i, op));
  return values;
}

/// The factor of a rank's pre-multiplied sum.
inline double factor_of(int rank) {
  return rank % 2 == 0 ? 2 : 1;
}

/// The reduction of everybody's `contribution`.
template <class T>
[[gnu::noinline]] std::vector<T> reduction(int ranks, std::size_t count, ReduceOp op) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t all = summand<T>(0, i, op);
    if (op.kind() == ReduceOp::Kind::premul_sum) all *= static_cast<int>(factor_of(0));
    for (int r = 1; r < ranks; ++r) {
      const std::int64_t one = summand<T>(r, i, op);
      switch (op.kind()) {
        case ReduceOp::Kind::sum:
        case ReduceOp::Kind::avg: all += one; break;
        case ReduceOp::Kind::premul_sum: all += one * static_cast<int>(factor_of(r)); break;
        case ReduceOp::Kind::prod: all *= one; break;
        case ReduceOp::Kind::min: all = one < all ? one : all; break;
        case ReduceOp::Kind::max: all = one > all ? one : all; break;
      }
    }
    if constexpr (std::is_integral_v<T>) {
      if (op == ReduceOp::avg) all /= ranks;
      values[i] = static_cast<T>(all);
    } else if (op == ReduceOp::avg) {
      const double mean = static_cast<double>(all) / ranks;
      if constexpr (std::is_same_v<T, double>)
        values[i] = mean;
      else
        values[i] = T(static_cast<float>(mean));
    } else {
      values[i] = from_int<T>(static_cast<int>(all));
    }
  }
  return values;
}

template <class T>
std::string in_words(const T& value) {
  if constexpr (std::is_same_v<T, Triple>) {
    return "{" + std::to_string(value.a) + ", " + std::to_string(value.b) + ", " +
           std::to_string(value.c) + "}";
  } else if constexpr (std::is_same_v<T, std::byte>) {
    return std::to_string(static_cast<int>(value));
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(value);
  } else {
    return std::to_string(static_cast<double>(value));
  }
}

/// Where two buffers first differ in a bit, in words; empty where they do not.
template <class T>
[[gnu::noinline]] std::string difference(const std::vector<T>& actual,
                                         const std::vector<T>& expected) {
  if (actual.size() != expected.size()) {
    return std::to_string(actual.size()) + " elements instead of " +
           std::to_string(expected.size());
  }
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (std::memcmp(&actual[i], &expected[i], sizeof(T)) != 0) {
      return "element " + std::to_string(i) + " of " + std::to_string(actual.size()) + " is " +
             in_words(actual[i]) + " instead of " + in_words(expected[i]);
    }
  }
  return {};
}

/// As `difference`, but floats may be off by the last two bits or so: an average is scaled by 1/n,
/// which no binary float is exactly.
template <class T>
[[gnu::noinline]] std::string difference_within_rounding(const std::vector<T>& actual,
                                                         const std::vector<T>& expected) {
  if constexpr (!std::is_integral_v<T>) {
    if (actual.size() == expected.size()) {
      constexpr double kBits = sizeof(T) == 8 ? 50 : sizeof(T) == 4 ? 21 : sizeof(T) == 2 ? 6 : 2;
      const double relative = __builtin_exp2(-kBits);
      for (std::size_t i = 0; i < actual.size(); ++i) {
        const double a = static_cast<double>(actual[i]), e = static_cast<double>(expected[i]);
        if (!(__builtin_fabs(a - e) <= relative * __builtin_fabs(e))) {
          return "element " + std::to_string(i) + " is " + std::to_string(a) + " instead of " +
                 std::to_string(e);
        }
      }
      return {};
    }
  }
  return difference(actual, expected);
}

/// Calls `f.template operator()<T>()` for each element type there is.
template <class F>
void for_every_element_type(F f) {
  f.template operator()<std::int8_t>();
  f.template operator()<std::uint8_t>();
  f.template operator()<std::int32_t>();
  f.template operator()<std::uint32_t>();
  f.template operator()<std::int64_t>();
  f.template operator()<std::uint64_t>();
  f.template operator()<f16>();
  f.template operator()<bf16>();
  f.template operator()<float>();
  f.template operator()<double>();
  f.template operator()<f8e4m3>();
  f.template operator()<f8e5m2>();
}

/// Every reduction, as rank `rank` passes it.
inline std::vector<ReduceOp> every_reduction(int rank) {
  return {ReduceOp::sum, ReduceOp::prod, ReduceOp::min,
          ReduceOp::max, ReduceOp::avg,  ReduceOp::premul_sum(factor_of(rank))};
}

}  // namespace comm::testing
