#pragma once

/// Reductions of host memory: `n` contributions, in the order given, become one. Types of 16 and 8
/// bits are computed in FP32 and rounded once at the end; integers wrap; an average divides the sum,
/// integers towards zero; the minimum and maximum of floats is NaN where a contribution is.
///
/// Each element goes through the same vector instructions wherever it lies, so the result depends
/// on the contributions and their order alone, down to the payload of a NaN.
///
/// Costs one pass over the contributions; the variant for the widest vectors of this processor is
/// chosen once. Thread safety: pure functions.

#include <cstddef>

#include "comm/data_type.h"
#include "comm/reduce_op.h"

namespace comm::detail::host {

/// `destination` may be one of `sources`, exactly. `factors`, one for each source, are looked at by
/// pre-multiplied sums alone.
using Reduction = void (*)(void* destination, const void* const* sources, int n, std::size_t count,
                           const double* factors);

enum class Vectors { baseline, avx2, avx512 };
inline constexpr int kVectorsCount = 3;

/// The widest that this processor has.
Vectors best_vectors();

Reduction reduction(DataType type, ReduceOp::Kind kind, Vectors vectors);
Reduction reduction(DataType type, ReduceOp::Kind kind);

/// `[type][kind]`, one table a variant; null where the compiler cannot make the variant.
inline constexpr int kKindCount = 6;
using ReductionTable = Reduction[kDataTypeCount][kKindCount];
extern const ReductionTable* const kBaselineReductions;
extern const ReductionTable* const kAvx2Reductions;
extern const ReductionTable* const kAvx512Reductions;

}  // namespace comm::detail::host
