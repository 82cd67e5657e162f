#pragma once

/// The backend that `--//comm:backend=single_gpu` chose. One GPU: communication that compiles to nothing.

#include "comm/backends/single_gpu.h"

namespace comm {

using DefaultBackend = SingleGpu;

}  // namespace comm
