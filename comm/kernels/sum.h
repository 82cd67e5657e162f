#pragma once

/// The CUDA kernels comm owns: sums in float, rounded once, with the same bits on every rank. They
/// exist for bf16, f16 and f32. Memory is read and written 16 bytes at a time where all pointers
/// are aligned to 16 bytes, and is right, if slower, for any pointer aligned to its element.
///
/// The functions here enqueue and return: no wait, no allocation, no thread; they may be captured
/// into a CUDA graph. The stream's device must be current. An error is `cuda` with the
/// `cudaError_t`. No CUDA header is needed. Thread safety: as of `cudaLaunchKernel`.

#include <cstddef>

#include "comm/data_type.h"
#include "comm/status.h"
#include "comm/stream.h"

namespace comm::kernels {

/// Whether there are kernels for `type`.
constexpr bool has_sum(DataType type) {
  return type == DataType::bf16 || type == DataType::f16 || type == DataType::f32;
}

/// `accumulator[i] += addend[i]`. The two do not overlap.
Status add_inplace(DataType type, void* accumulator, const void* addend, std::size_t count,
                   Stream stream);

/// What `add_rank_sum` adds up: `own` is this rank's contribution; that of rank r lies at
/// `received` + r * `stride` elements. The block of this rank there is not read.
struct RankSum {
  void* out;  ///< May be `own`.
  const void* own;
  const void* received;
  std::size_t stride;
  int rank;
  int world_size;
  std::size_t count;
};

/// `out[i]` = the contributions of rank 0, 1, ... added in that order.
Status add_rank_sum(DataType type, const RankSum& sum, Stream stream);

inline Status bf16_add_inplace(void* accumulator, const void* addend, std::size_t count,
                               Stream stream) {
  return add_inplace(DataType::bf16, accumulator, addend, count, stream);
}

inline Status bf16_add_rank_sum(const RankSum& sum, Stream stream) {
  return add_rank_sum(DataType::bf16, sum, stream);
}

}  // namespace comm::kernels
