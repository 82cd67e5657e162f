#pragma once

/// A wire is how a partial sum gets from the model's memory to a communicator and back as the sum:
/// as it is (`Direct`), rounded to BF16, or through memory of the GPU (parallel_wire.h). The model
/// does not know which.

#include <concepts>
#include <cstddef>
#include <span>

#include "comm/device_span.h"
#include "comm/status.h"
#include "examples/tensor_parallel/matrix.h"

namespace example {

/// A partial sum, with the product it comes from.
struct Partial {
  const float* in;  ///< rows x w.inputs()
  std::size_t rows;
  const Matrix& w;
  std::span<float> sum;  ///< in * w, to be summed over the ranks in place.
};

template <class W, class Communicator>
concept Wire = requires(W& wire, Communicator& communicator, const Partial& partial) {
  { wire.all_reduce(communicator, partial) } -> std::same_as<comm::Status>;
};

/// Hands the communicator the model's own memory.
struct Direct {
  template <class Communicator>
  static constexpr comm::Status all_reduce(Communicator& communicator, const Partial& partial) {
    return communicator.all_reduce(comm::DeviceSpan<float>(partial.sum));
  }
};

}  // namespace example
