#include "comm/backends/host/reduce.h"

#if defined(__x86_64__)
#define COMM_HOST_TARGET [[gnu::target("avx,avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl")]]
#define COMM_HOST_HAS_F16C
#include "comm/backends/host/reduce_impl.h"

namespace comm::detail::host {
const ReductionTable* const kAvx512Reductions = &kTable.rows;
}
#else
namespace comm::detail::host {
const ReductionTable* const kAvx512Reductions = nullptr;
}
#endif
