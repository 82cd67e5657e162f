#include "examples/tensor_parallel/reference.h"

#include <utility>

#include "comm/backends/single_gpu.h"
#include "comm/communicator.h"
#include "examples/tensor_parallel/model.h"

namespace example {

Run run_on_one_rank(const Shape& shape, std::span<const std::uint8_t> text, Progress& progress) {
  comm::Communicator<comm::SingleGpu> communicator{comm::SingleGpu()};
  Direct wire;
  Model model(communicator, wire, shape);
  return *run(model, shape, text, progress);  // Nothing in it can fail.
}

}  // namespace example
