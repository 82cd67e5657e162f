#include "comm/backends/host/reduce.h"

#if defined(__x86_64__)
#define COMM_HOST_TARGET [[gnu::target("avx,avx2,f16c")]]
#define COMM_HOST_HAS_F16C
#include "comm/backends/host/reduce_impl.h"

namespace comm::detail::host {
const ReductionTable* const kAvx2Reductions = &kTable.rows;
}
#else
namespace comm::detail::host {
const ReductionTable* const kAvx2Reductions = nullptr;
}
#endif
