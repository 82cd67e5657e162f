#pragma once

/// Runs a model over a whole text, batch by batch.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/result.h"
#include "examples/tensor_parallel/progress.h"
#include "examples/tensor_parallel/shape.h"

namespace example {

struct Run {
  std::vector<float> out;  ///< One row for each byte of the text.
  double seconds = 0;
};

/// Positions that go through the stack together: whole sequences, about 512.
inline std::size_t batch_of(const Shape& shape) {
  return std::max<std::size_t>(1, 512 / shape.sequence) * shape.sequence;
}

template <class M>
comm::Result<Run> run(M& model, const Shape& shape, std::span<const std::uint8_t> text,
                      Progress& progress) {
  Run run;
  run.out.resize(text.size() * shape.hidden);
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t first = 0; first < text.size();) {
    const std::size_t rows = std::min(batch_of(shape), text.size() - first);
    comm::Status s = model.forward(text.subspan(first, rows),
                                   {run.out.data() + first * shape.hidden, rows * shape.hidden});
    if (!s.ok()) return s;
    first += rows;
    progress.reached(first);
  }
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return run;
}

}  // namespace example
