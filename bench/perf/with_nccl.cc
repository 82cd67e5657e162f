#include <array>

#include "bench/perf/backends.h"
#include "bench/perf/device_memory.h"
#include "bench/perf/host_backends.h"
#include "bench/perf/run_backend.h"
#include "comm/backends/nccl.h"

namespace comm::perf {
namespace {

Status run_nccl(Run& run) {
  return run_backend<Nccl, DeviceMemory>(run);
}

}  // namespace

std::span<const BackendEntry> backends() {
  static constexpr std::array kBackends{
      BackendEntry{"nccl", &run_nccl},
      BackendEntry{"host", &run_host},
      BackendEntry{"single_gpu", &run_single_gpu},
  };
  return kBackends;
}

}  // namespace comm::perf
