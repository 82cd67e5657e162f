#pragma once

/// The table that the run ends with.

#include <cstdint>
#include <string>
#include <vector>

#include "examples/tensor_parallel/options.h"
#include "examples/tensor_parallel/parallel_wire.h"
#include "examples/tensor_parallel/shape.h"
#include "examples/tensor_parallel/text.h"

namespace example {

/// What each rank tells rank 0; sent as it is.
struct RankReport {
  double seconds = 0;
  Traffic traffic;
  std::uint64_t fingerprint = 0;  ///< Of all its output bits.
};

struct Outcome {
  double one_rank_seconds = 0;
  std::vector<RankReport> ranks;
  float difference = 0;
  float bound = 0;

  bool ranks_agree() const;
  bool within_bound() const { return difference <= bound; }
  bool held() const { return ranks_agree() && within_bound(); }
};

void print(const Outcome& outcome, const Options& options, const Text& text,
           const std::string& backend);

}  // namespace example
