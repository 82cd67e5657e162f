// The step on one GPU, with a flight recorder and a log around it.

#include "comm/backends/single_gpu.h"
#include "comm/communicator.h"
#include "comm/decorators/logged.h"
#include "comm/decorators/recorded.h"

namespace engine {
using Communicator = comm::Communicator<comm::Recorded<comm::Logged<comm::SingleGpu>>>;
}  // namespace engine

#include "tests/codegen/decode_step.inc"
