#pragma once

/// The reductions, to be compiled once for each vector width: the including file defines
/// `COMM_HOST_TARGET`, an attribute for the functions that do the work, and gets `kTable` in an
/// unnamed namespace. All else is forced inline, so that nothing compiled for a wide processor can
/// be mistaken by the linker for a function that must run everywhere.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "comm/backends/host/reduce.h"
#include "comm/float_types.h"

#if !defined(COMM_HOST_TARGET)
#error "define COMM_HOST_TARGET before including this file"
#endif

#if defined(__clang__)
#define COMM_HOST_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define COMM_HOST_INDEPENDENT _Pragma("GCC ivdep")
#endif
#define COMM_HOST_INLINE [[gnu::always_inline]] static inline

namespace comm::detail::host {
namespace {

template <class T>
using Aliased [[gnu::may_alias]] = T;

/// How an element is stored, and how it is computed with.
template <class T>
struct Integer {
  using Stored = std::make_unsigned_t<T>;
  using Wide = Stored;
  using Signed = T;
  COMM_HOST_INLINE Wide load(Stored s) { return s; }
  COMM_HOST_INLINE Stored store(Wide w) { return w; }
  COMM_HOST_INLINE Wide factor(double f) {
    if (!(f > -9.2e18)) return static_cast<Wide>(INT64_MIN);
    if (std::is_unsigned_v<T> && f >= 9.2e18 && f < 1.8e19) return static_cast<Wide>(f);
    return static_cast<Wide>(f < 9.2e18 ? std::llrint(f) : INT64_MAX);
  }
  COMM_HOST_INLINE Wide divide(Wide w, int n) {
    return static_cast<Wide>(static_cast<T>(w) / static_cast<T>(n));
  }
  COMM_HOST_INLINE bool less(Wide a, Wide b) { return static_cast<T>(a) < static_cast<T>(b); }
  COMM_HOST_INLINE bool is_nan(Wide) { return false; }
};

template <class T>
struct Float {
  using Stored = T;
  using Wide = T;
  COMM_HOST_INLINE Wide load(Stored s) { return s; }
  COMM_HOST_INLINE Stored store(Wide w) { return w; }
  COMM_HOST_INLINE Wide factor(double f) { return static_cast<Wide>(f); }
  COMM_HOST_INLINE Wide divide(Wide w, int n) { return w / static_cast<Wide>(n); }
  COMM_HOST_INLINE bool less(Wide a, Wide b) { return a < b; }
  COMM_HOST_INLINE bool is_nan(Wide a) { return a != a; }
};

template <class Format, class Bits>
struct SmallFloatElement {
  using Stored = Bits;
  using Wide = float;
  COMM_HOST_INLINE Wide load(Stored s) { return Format::decode(s); }
  COMM_HOST_INLINE Stored store(Wide w) { return static_cast<Stored>(Format::encode(w)); }
  COMM_HOST_INLINE Wide factor(double f) {
    return Format::decode(Format::encode(static_cast<float>(f)));
  }
  COMM_HOST_INLINE Wide divide(Wide w, int n) { return w / static_cast<Wide>(n); }
  COMM_HOST_INLINE bool less(Wide a, Wide b) { return a < b; }
  COMM_HOST_INLINE bool is_nan(Wide a) { return a != a; }
};

template <class E, ReduceOp::Kind kKind>
struct Kernel {
  using Kind = ReduceOp::Kind;
  using Stored = typename E::Stored;
  using Wide = typename E::Wide;
  using In = const Aliased<Stored>*;
  using Out = Aliased<Stored>*;
  static constexpr std::size_t kBlock = 256;
  static constexpr std::size_t kTail = 16;

  COMM_HOST_INLINE Wide first(Stored s, Wide factor) {
    if constexpr (kKind == Kind::premul_sum) return static_cast<Wide>(E::load(s) * factor);
    return E::load(s);
  }
  COMM_HOST_INLINE Wide combine(Wide a, Wide b) {
    if constexpr (kKind == Kind::prod) return static_cast<Wide>(a * b);
    if constexpr (kKind == Kind::min) return E::less(b, a) || E::is_nan(b) ? b : a;
    if constexpr (kKind == Kind::max) return E::less(a, b) || E::is_nan(b) ? b : a;
    return static_cast<Wide>(a + b);
  }
  COMM_HOST_INLINE Stored last(Wide w, int n) {
    if constexpr (kKind == Kind::avg) return E::store(E::divide(w, n));
    return E::store(w);
  }
  COMM_HOST_INLINE Wide factor(const double* factors, int s) {
    if constexpr (kKind == Kind::premul_sum) return E::factor(factors[s]);
    return Wide(1);
  }

  template <std::size_t kCount>
  COMM_HOST_INLINE void block(Out out, const void* const* sources, std::size_t at, int n,
                              const double* factors) {
    const auto source = [&](int s) __attribute__((always_inline)) {
      return static_cast<In>(sources[s]) + at;
    };
    const In a = source(0);
    const Wide fa = factor(factors, 0);
    if (n == 1) {
      COMM_HOST_INDEPENDENT
      for (std::size_t j = 0; j < kCount; ++j) out[j] = last(first(a[j], fa), 1);
      return;
    }
    const In b = source(1);
    const Wide fb = factor(factors, 1);
    if (n == 2) {
      COMM_HOST_INDEPENDENT
      for (std::size_t j = 0; j < kCount; ++j)
        out[j] = last(combine(first(a[j], fa), first(b[j], fb)), 2);
      return;
    }
    Wide sum[kCount];
    for (std::size_t j = 0; j < kCount; ++j) sum[j] = combine(first(a[j], fa), first(b[j], fb));
    for (int s = 2; s < n; ++s) {
      const In c = source(s);
      const Wide fc = factor(factors, s);
      for (std::size_t j = 0; j < kCount; ++j) sum[j] = combine(sum[j], first(c[j], fc));
    }
    for (std::size_t j = 0; j < kCount; ++j) out[j] = last(sum[j], n);
  }

  /// The last few elements, in a block of their own that is filled up.
  COMM_HOST_INLINE void rest(Out out, const void* const* sources, std::size_t at, std::size_t count,
                             int n, const double* factors) {
    Stored filled[64][kTail];
    const void* copies[64] = {filled[0], filled[1]};
    std::memset(filled[0], 0, 2 * sizeof filled[0]);
    for (int s = 0; s < n; ++s) {
      if (s >= 2) std::memset(filled[s], 0, sizeof filled[s]);
      std::memcpy(filled[s], static_cast<In>(sources[s]) + at, count * sizeof(Stored));
      copies[s] = filled[s];
    }
    block<kTail>(filled[0], copies, 0, n, factors);
    std::memcpy(out, filled[0], count * sizeof(Stored));
  }

  COMM_HOST_TARGET static void run(void* destination, const void* const* sources, int n,
                                   std::size_t count, const double* factors) {
    const Out out = static_cast<Out>(destination);
    std::size_t i = 0;
    for (; i + kBlock <= count; i += kBlock) block<kBlock>(out + i, sources, i, n, factors);
    for (; i + kTail <= count; i += kTail) block<kTail>(out + i, sources, i, n, factors);
    if (i < count) rest(out + i, sources, i, count - i, n, factors);
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
    fill<SmallFloatElement<Float16, std::uint16_t>>(rows[static_cast<int>(DataType::f16)]);
    fill<SmallFloatElement<BFloat16, std::uint16_t>>(rows[static_cast<int>(DataType::bf16)]);
    fill<Float<float>>(rows[static_cast<int>(DataType::f32)]);
    fill<Float<double>>(rows[static_cast<int>(DataType::f64)]);
    fill<SmallFloatElement<Float8E4M3, std::uint8_t>>(rows[static_cast<int>(DataType::f8e4m3)]);
    fill<SmallFloatElement<Float8E5M2, std::uint8_t>>(rows[static_cast<int>(DataType::f8e5m2)]);
  }
};

constexpr Table kTable;

}  // namespace
}  // namespace comm::detail::host
