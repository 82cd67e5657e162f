#pragma once

/// The backend that `--//comm:backend=nccl` chose. Many GPUs, over NCCL.

#include "comm/backends/nccl.h"

namespace comm {

using DefaultBackend = Nccl;

}  // namespace comm
