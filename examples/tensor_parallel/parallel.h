#pragma once

/// One rank of the run on N ranks. All ranks call it; rank 0 also makes the run on one rank, compares
/// and prints.

#include "examples/tensor_parallel/options.h"
#include "examples/tensor_parallel/text.h"

namespace example {

/// Returns whether the results agree: the same on every rank.
comm::Result<bool> run_as_rank(const Options& options, const Text& text);

}  // namespace example
