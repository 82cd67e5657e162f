#pragma once

/// Events: each remembers the marker that the latest cudaEventRecord put on a stream, or its place
/// in a graph that is being captured. Waiting takes the marker as it is at that moment; recording
/// again does not change what was waited for before.

#include <cstddef>
#include <memory>
#include <vector>

#include "comm/testing/simulated/core/machine.h"

namespace comm::simulated::detail {

struct Event {
  int device = 0;
  unsigned flags = 0;
  OperationPtr recorded;  // Null: never recorded, which counts as complete.
  int polls = 0;
  std::shared_ptr<Capture> capture;   // The capture in which it was last recorded.
  std::vector<std::size_t> frontier;  // The nodes before it there.
};

}  // namespace comm::simulated::detail
