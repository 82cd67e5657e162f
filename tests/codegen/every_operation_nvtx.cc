// The step on one GPU, with every decorator that a build flag puts around it.

#include <type_traits>

#include "comm/backends/single_gpu.h"
#include "comm/communicator.h"
#include "comm/decorators/checked.h"
#include "comm/decorators/logged.h"
#include "comm/decorators/nvtx.h"
#include "comm/decorators/recorded.h"

namespace engine {
using Backend = comm::Nvtx<comm::Recorded<comm::Checked<comm::Logged<comm::SingleGpu>>>>;
using Communicator = comm::Communicator<Backend>;
static_assert(std::is_empty_v<Backend> && sizeof(Communicator) == 1);
}  // namespace engine

#include "tests/codegen/decode_step.inc"
