#pragma once

/// The engine's own add kernel, a `CUfunction`. It is launched through the driver, which is looked up
/// at run time: programs start on machines that have none.

#include <cuda_runtime_api.h>

#include "comm/operations.h"
#include "comm/status.h"

namespace comm::detail::nccl {

/// Whether the driver has what it takes.
Status can_add_with_kernels();

/// `op.recv` = `op.send` + `peers`, on `stream`; out of place with a copy first.
Status add_with(CUfunc_st* kernel, const ops::AllReduce& op, const void* peers,
                cudaStream_t stream);

}  // namespace comm::detail::nccl
