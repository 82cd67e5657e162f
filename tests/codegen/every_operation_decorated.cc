// The step on one GPU, with decorators around it.

#include "comm/backends/single_gpu.h"
#include "comm/communicator.h"
#include "comm/decorators/checked.h"
#include "comm/decorators/logged.h"

namespace engine {
using Backend = comm::Checked<comm::Logged<comm::SingleGpu>>;
using Communicator = comm::Communicator<Backend>;
static_assert(std::is_empty_v<Backend> && sizeof(Communicator) == 1);
}  // namespace engine

#include "tests/codegen/decode_step.inc"
