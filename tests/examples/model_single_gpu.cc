// The model on one GPU, through comm.
#include "comm/backends/single_gpu.h"
#include "comm/communicator.h"
#include "examples/tensor_parallel/model.h"

namespace example {

// The same name as in model_alone.cc, so that the symbols can be compared.
struct World : comm::Communicator<comm::SingleGpu> {};
struct Nothing : Direct {};

using TestedModel = Model<World, Nothing>;

comm::Status forward(TestedModel& model, std::span<const std::uint8_t> text, std::span<float> out) {
  return model.forward(text, out);
}

}  // namespace example
