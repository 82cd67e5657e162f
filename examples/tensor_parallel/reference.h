#pragma once

/// The run on one rank: the model with `SingleGpu`, which communicates in the source and not in the
/// object code.

#include <cstdint>
#include <span>

#include "examples/tensor_parallel/run.h"

namespace example {

Run run_on_one_rank(const Shape& shape, std::span<const std::uint8_t> text, Progress& progress);

}  // namespace example
