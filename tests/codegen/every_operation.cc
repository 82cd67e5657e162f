// The step on one GPU.

#include "comm/backends/single_gpu.h"
#include "comm/communicator.h"

namespace engine {
using Communicator = comm::Communicator<comm::SingleGpu>;
}  // namespace engine

#include "tests/codegen/decode_step.inc"
