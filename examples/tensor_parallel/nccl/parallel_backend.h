#pragma once

/// What the ranks of //examples:tensor_parallel talk over where the build says --config=nccl: GPUs.

#include "comm/backends/nccl.h"
#include "examples/tensor_parallel/device_memory.h"

namespace example {

using ParallelBackend = comm::Nccl;
using ParallelMemory = DeviceMemory;
inline constexpr char kParallelBackendName[] = "Nccl";

}  // namespace example
