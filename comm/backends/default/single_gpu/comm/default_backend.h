#pragma once

/// The backend that `--//comm:backend=single_gpu` chose. One GPU: communication that compiles to nothing.

#include "comm/backends/single_gpu.h"
#include "comm/decorators/logged.h"

namespace comm {

using DefaultBackend = Logged<SingleGpu>;

}  // namespace comm
