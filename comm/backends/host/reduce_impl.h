#pragma once

/// The reductions, to be compiled once for each vector width: the including file defines
/// `COMM_HOST_TARGET`, an attribute for the functions that do the work, `COMM_HOST_HAS_F16C` where
/// the processor converts halves, and gets `kTable` in an
/// unnamed namespace. All else is forced inline, so that nothing compiled for a wide processor can
/// be mistaken by the linker for a function that must run everywhere.

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "comm/backends/host/reduce.h"

#if !defined(COMM_HOST_TARGET)
#error "define COMM_HOST_TARGET before including this file"
#endif

#if defined(__clang__)
// It warns where it cannot make vectors, which loops that take eight halves at a time have already.
#pragma clang diagnostic ignored "-Wpass-failed"
#define COMM_HOST_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define COMM_HOST_INDEPENDENT _Pragma("GCC ivdep")
#endif

#include "comm/backends/host/reduce_elements.h"
#include "comm/backends/host/reduce_through_floats.h"

namespace comm::detail::host {
namespace {

template <class E, ReduceOp::Kind kKind>
struct Kernel {
  using Kind = ReduceOp::Kind;
  using Stored = typename E::Stored;
  using Unit = typename E::Unit;
  using Wide = typename E::Wide;
  using In = const Unit*;
  using Out = Unit*;
  static constexpr std::size_t kLanes = E::kLanes;
  static constexpr std::size_t kBlock = 256;
  static constexpr std::size_t kTail = 16;

  template <std::size_t kLane>
  COMM_HOST_INLINE Wide first(Unit s, Wide factor) {
    if constexpr (kKind == Kind::premul_sum)
      return static_cast<Wide>(E::template load<kLane>(s) * factor);
    return E::template load<kLane>(s);
  }
  COMM_HOST_INLINE Wide combine(Wide a, Wide b) {
    if constexpr (kKind == Kind::prod) return static_cast<Wide>(a * b);
    if constexpr (kKind == Kind::min) return E::lesser(a, b);
    if constexpr (kKind == Kind::max) return E::greater(a, b);
    return static_cast<Wide>(a + b);
  }
  COMM_HOST_INLINE Wide last(Wide w, int n) {
    if constexpr (kKind == Kind::avg) return E::divide(w, n);
    return w;
  }
  COMM_HOST_INLINE Wide factor(const double* factors, int s) {
    if constexpr (kKind == Kind::premul_sum) return E::factor(factors[s]);
    return Wide{};
  }
  COMM_HOST_INLINE Wide of_one(Unit a, Wide fa, auto lane) { return last(first<lane>(a, fa), 1); }
  COMM_HOST_INLINE Wide of_two(Unit a, Wide fa, Unit b, Wide fb, auto lane) {
    return combine(first<lane>(a, fa), first<lane>(b, fb));
  }
  COMM_HOST_INLINE Unit pack(Wide low, [[maybe_unused]] Wide high) {
    if constexpr (kLanes == 1)
      return E::store({low});
    else
      return E::store({low, high});
  }

  template <std::size_t kCount>
  COMM_HOST_INLINE void block(Out out, const void* const* sources, std::size_t at, int n,
                              const double* factors) {
    constexpr std::size_t kUnits = kCount / E::kPerUnit;
    constexpr std::integral_constant<std::size_t, 0> kLow;
    constexpr std::integral_constant<std::size_t, kLanes - 1> kHigh;
    const auto source = [&](int s) __attribute__((always_inline)) {
      return static_cast<In>(sources[s]) + at;
    };
    const In a = source(0);
    const Wide fa = factor(factors, 0);
    if (n == 1) {
      COMM_HOST_INDEPENDENT
      for (std::size_t j = 0; j < kUnits; ++j)
        out[j] = pack(of_one(a[j], fa, kLow), of_one(a[j], fa, kHigh));
      return;
    }
    const In b = source(1);
    const Wide fb = factor(factors, 1);
    if (n == 2) {
      COMM_HOST_INDEPENDENT
      for (std::size_t j = 0; j < kUnits; ++j)
        out[j] = pack(last(of_two(a[j], fa, b[j], fb, kLow), 2),
                      last(of_two(a[j], fa, b[j], fb, kHigh), 2));
      return;
    }
    Wide low[kUnits];
    Wide high[kUnits];
    for (std::size_t j = 0; j < kUnits; ++j) {
      low[j] = of_two(a[j], fa, b[j], fb, kLow);
      if constexpr (kLanes == 2) high[j] = of_two(a[j], fa, b[j], fb, kHigh);
    }
    for (int s = 2; s < n; ++s) {
      const In c = source(s);
      const Wide fc = factor(factors, s);
      for (std::size_t j = 0; j < kUnits; ++j) {
        low[j] = combine(low[j], first<kLow>(c[j], fc));
        if constexpr (kLanes == 2) high[j] = combine(high[j], first<kHigh>(c[j], fc));
      }
    }
    for (std::size_t j = 0; j < kUnits; ++j)
      out[j] = pack(last(low[j], n), last(kLanes == 2 ? high[j] : low[j], n));
  }

  /// The last few elements, in a block of their own that is filled up.
  COMM_HOST_INLINE void rest(Stored* out, const void* const* sources, std::size_t at,
                             std::size_t count, int n, const double* factors) {
    Stored filled[64][kTail];
    const void* copies[64] = {filled[0], filled[1]};
    std::memset(filled[0], 0, 2 * sizeof filled[0]);
    for (int s = 0; s < n; ++s) {
      if (s >= 2) std::memset(filled[s], 0, sizeof filled[s]);
      std::memcpy(filled[s], static_cast<const Stored*>(sources[s]) + at, count * sizeof(Stored));
      copies[s] = filled[s];
    }
    block<kTail>(reinterpret_cast<Out>(filled[0]), copies, 0, n, factors);
    std::memcpy(out, filled[0], count * sizeof(Stored));
  }

  COMM_HOST_TARGET static void run(void* destination, const void* const* sources, int n,
                                   std::size_t count, const double* factors) {
    const Out out = static_cast<Out>(destination);
    std::size_t i = 0;
    for (; i + kBlock <= count; i += kBlock)
      block<kBlock>(out + i / E::kPerUnit, sources, i / E::kPerUnit, n, factors);
    for (; i + kTail <= count; i += kTail)
      block<kTail>(out + i / E::kPerUnit, sources, i / E::kPerUnit, n, factors);
    if (i < count) rest(static_cast<Stored*>(destination) + i, sources, i, count - i, n, factors);
  }
};

template <class E>
constexpr void fill(Reduction (&row)[kKindCount]) {
  using Kind = ReduceOp::Kind;
  row[static_cast<int>(Kind::sum)] = Kernel<E, Kind::sum>::run;
  row[static_cast<int>(Kind::prod)] = Kernel<E, Kind::prod>::run;
  row[static_cast<int>(Kind::min)] = Kernel<E, Kind::min>::run;
  row[static_cast<int>(Kind::max)] = Kernel<E, Kind::max>::run;
  row[static_cast<int>(Kind::avg)] = Kernel<E, Kind::avg>::run;
  row[static_cast<int>(Kind::premul_sum)] = Kernel<E, Kind::premul_sum>::run;
}

struct Table {
  ReductionTable rows{};

  constexpr Table() {
    fill<Integer<std::int8_t>>(rows[static_cast<int>(DataType::i8)]);
    fill<Integer<std::uint8_t>>(rows[static_cast<int>(DataType::u8)]);
    fill<Integer<std::int32_t>>(rows[static_cast<int>(DataType::i32)]);
    fill<Integer<std::uint32_t>>(rows[static_cast<int>(DataType::u32)]);
    fill<Integer<std::int64_t>>(rows[static_cast<int>(DataType::i64)]);
    fill<Integer<std::uint64_t>>(rows[static_cast<int>(DataType::u64)]);
#if defined(COMM_HOST_HAS_F16C)
    fill<Float16Eight>(rows[static_cast<int>(DataType::f16)]);
#else
    fill_through_floats<Conversion<Float16, std::uint16_t>>(rows[static_cast<int>(DataType::f16)]);
#endif
    fill<BFloat16Pair>(rows[static_cast<int>(DataType::bf16)]);
    fill<Float<float>>(rows[static_cast<int>(DataType::f32)]);
    fill<Float<double>>(rows[static_cast<int>(DataType::f64)]);
    fill_through_floats<Conversion<Float8E4M3, std::uint8_t>>(
        rows[static_cast<int>(DataType::f8e4m3)]);
    fill_through_floats<Conversion<Float8E5M2, std::uint8_t>>(
        rows[static_cast<int>(DataType::f8e5m2)]);
  }
};

constexpr Table kTable;

}  // namespace
}  // namespace comm::detail::host
