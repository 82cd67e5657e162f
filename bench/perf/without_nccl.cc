#include <array>

#include "bench/perf/backends.h"
#include "bench/perf/host_backends.h"

namespace comm::perf {

std::span<const BackendEntry> backends() {
  static constexpr std::array kBackends{
      BackendEntry{"host", &run_host},
      BackendEntry{"single_gpu", &run_single_gpu},
  };
  return kBackends;
}

}  // namespace comm::perf
