#include "comm/backends/host/reduce.h"

#include <cstdlib>
#include <cstring>

namespace comm::detail::host {

Vectors best_vectors() {
#if defined(__x86_64__)
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
