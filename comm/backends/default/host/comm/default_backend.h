#pragma once

/// The backend that `--//comm:backend=host` chose. Ranks on one machine, over shared memory.

#include "comm/backends/host.h"

namespace comm {

using DefaultBackend = Host;

}  // namespace comm
