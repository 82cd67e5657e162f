#include "comm/backends/host/reduce.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace comm::detail::host {

#if defined(__x86_64__)
namespace {

/// Conversions of halves; not among the names that every compiler's __builtin_cpu_supports knows.
bool has_f16c() {
  unsigned int a = 0;
  unsigned int b = 0;
  unsigned int c = 0;
  unsigned int d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

}  // namespace
#endif

Vectors best_vectors() {
#if defined(__x86_64__)
  if (!has_f16c()) return Vectors::baseline;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return Vectors::avx512;
  if (__builtin_cpu_supports("avx2")) return Vectors::avx2;
#endif
  return Vectors::baseline;
}

Reduction reduction(DataType type, ReduceOp::Kind kind, Vectors vectors) {
  const ReductionTable* table = kBaselineReductions;
  if (vectors == Vectors::avx2 && kAvx2Reductions != nullptr) table = kAvx2Reductions;
  if (vectors == Vectors::avx512 && kAvx512Reductions != nullptr) table = kAvx512Reductions;
  return (*table)[static_cast<int>(type)][static_cast<int>(kind)];
}

Reduction reduction(DataType type, ReduceOp::Kind kind) {
  static const Vectors best = best_vectors();
  return reduction(type, kind, best);
}

}  // namespace comm::detail::host
