#pragma once

/// The backend that `--//comm:backend=host` chose. Ranks on one machine, over shared memory.

#include "comm/backends/host.h"
#include "comm/decorators/logged.h"

namespace comm {

using DefaultBackend = Logged<Host>;

}  // namespace comm
