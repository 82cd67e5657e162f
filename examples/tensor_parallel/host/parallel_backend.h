#pragma once

/// What the ranks of //examples:tensor_parallel talk over, unless the build says --config=nccl:
/// shared memory.

#include "comm/backends/host.h"
#include "examples/tensor_parallel/memory.h"

namespace example {

using ParallelBackend = comm::Host;
using ParallelMemory = HostMemory;
inline constexpr char kParallelBackendName[] = "Host";

}  // namespace example
