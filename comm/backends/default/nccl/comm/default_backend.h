#pragma once

/// The backend that `--//comm:backend=nccl` chose. Many GPUs, over NCCL.

#include "comm/backends/nccl.h"
#include "comm/decorators/logged.h"

namespace comm {

using DefaultBackend = Logged<Nccl>;

}  // namespace comm
