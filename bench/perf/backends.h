#pragma once

/// The backends that were linked into this `comm_perf`: SingleGpu and Host always, Nccl where the build
/// says --config=nccl.

#include <span>
#include <string_view>

#include "bench/perf/report.h"
#include "comm/status.h"

namespace comm::perf {

struct BackendEntry {
  std::string_view name;
  Status (*run)(Run& run);  ///< Joins the world, fills `run`, prints on rank 0.
};

/// The first is the default.
std::span<const BackendEntry> backends();

}  // namespace comm::perf
