#pragma once

/// The entries that need no GPU (backends.h).

#include "bench/perf/report.h"
#include "comm/status.h"

namespace comm::perf {

Status run_host(Run& run);
Status run_single_gpu(Run& run);

}  // namespace comm::perf
