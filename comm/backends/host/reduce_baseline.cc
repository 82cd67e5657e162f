#define COMM_HOST_TARGET
#include "comm/backends/host/reduce_impl.h"

namespace comm::detail::host {
const ReductionTable* const kBaselineReductions = &kTable.rows;
}
