#pragma once

/// The arithmetic of collectives. Inputs are combined in rank order. f16, bf16 and fp8 are added in
/// f32 and rounded once; integers wrap. Average of floats is each input times 1/n, that factor and
/// the product rounded to the type, and then a sum; average of integers is the sum divided by n.

#include <nccl.h>

#include <cstddef>
#include <vector>

namespace comm::simulated::detail {

/// NCCL's numbers of FP8, also where its header is older than they are.
inline constexpr int kFloat8e4m3 = 10;
inline constexpr int kFloat8e5m2 = 11;
inline constexpr bool kHasFloat8 = NCCL_VERSION_CODE >= NCCL_VERSION(2, 24, 3);

std::size_t size_of(ncclDataType_t type);  // 0: no such type
const char* name_of(ncclDataType_t type);

enum class Reduction { sum, prod, max, min, avg, premul_sum };

const char* name_of(Reduction reduction);

/// `scalars`: for premul_sum, one scalar of the type for each input. `out` may be one of `inputs`.
void reduce(ncclDataType_t type, Reduction reduction, const std::vector<const char*>& inputs,
            const std::vector<const char*>& scalars, std::size_t count, char* out);

}  // namespace comm::simulated::detail
