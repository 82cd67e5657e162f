#pragma once

/// The command line of //examples:tensor_parallel.

#include <cstddef>
#include <string>

#include "comm/result.h"
#include "examples/tensor_parallel/parallel_wire.h"
#include "examples/tensor_parallel/shape.h"

namespace example {

struct Options {
  Shape shape;
  Element element = Element::f32;
  int ranks = 2;
  bool ranks_given = false;
  std::size_t positions = 16384;  ///< At most, of the text.
  std::string text;               ///< A path; empty: this project's README.
  bool help = false;
};

extern const char* const kHelp;

comm::Result<Options> parse_options(int argc, const char* const* argv);

/// Each rank needs a head and a column of the MLP.
comm::Status check_split(const Shape& shape, int ranks);

}  // namespace example
