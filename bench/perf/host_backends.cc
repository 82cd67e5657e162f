#include "bench/perf/host_backends.h"

#include "bench/perf/host_memory.h"
#include "bench/perf/run_backend.h"
#include "comm/backends/host.h"
#include "comm/backends/single_gpu.h"

namespace comm::perf {

Status run_host(Run& run) {
  return run_backend<Host, HostMemory>(run);
}

Status run_single_gpu(Run& run) {
  return run_backend<SingleGpu, HostMemory>(run);
}

}  // namespace comm::perf
