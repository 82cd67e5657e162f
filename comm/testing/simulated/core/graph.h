#pragma once

/// Graphs: nodes in the order of capture, each with those it follows, and instantiated copies. A
/// launch is one operation on its stream that runs the nodes one after another in an order drawn
/// from the seed that their dependencies allow; collectives keep the order of capture, as the
/// launch of a real graph does for one communicator.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "comm/testing/simulated/core/machine.h"
#include "comm/testing/simulated/core/stream.h"

namespace comm::simulated::detail {

struct Node {
  Submission submission;
  std::vector<std::size_t> after;
  cudaGraphNodeType type = cudaGraphNodeTypeKernel;
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<std::shared_ptr<void>> kept;  // User objects.
};

struct GraphExec {
  std::vector<Node> nodes;
  std::vector<std::shared_ptr<void>> kept;
  std::uint64_t launches = 0;
  OperationPtr last;  // Launches of one exec never overlap.
};

Submission launch_of(GraphExec* exec);

}  // namespace comm::simulated::detail
