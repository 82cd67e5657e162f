// The step on one GPU, with decorators around it.

#include "comm/backends/single_gpu.h"
#include "comm/communicator.h"
#include "comm/decorators/logged.h"

namespace engine {
using Communicator = comm::Communicator<comm::Logged<comm::Logged<comm::SingleGpu>>>;
}  // namespace engine

#include "tests/codegen/decode_step.inc"
