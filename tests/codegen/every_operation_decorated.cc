// The step on one GPU, with decorators around it.

#include <type_traits>

#include "comm/backends/single_gpu.h"
#include "comm/communicator.h"
#include "comm/decorators/checked.h"
#include "comm/decorators/faulty.h"
#include "comm/decorators/logged.h"
#include "comm/decorators/recorded.h"

namespace engine {
using Backend = comm::Recorded<comm::Faulty<comm::Checked<comm::Logged<comm::SingleGpu>>>>;
using Communicator = comm::Communicator<Backend>;
static_assert(std::is_empty_v<Backend> && sizeof(Communicator) == 1);
}  // namespace engine

#include "tests/codegen/decode_step.inc"
