#include "comm/testing/simulated/core/graph.h"

#include <utility>

#include "comm/testing/simulated/settings.h"

namespace comm::simulated::detail {
namespace {

// A topological order: of the nodes that may come next, the seed picks one.
std::vector<std::size_t> order_of(const std::vector<Node>& nodes, std::uint64_t salt) {
  std::vector<std::size_t> order;
  std::vector<bool> placed(nodes.size(), false);
  while (order.size() < nodes.size()) {
    std::vector<std::size_t> next;
    bool collective_before = false;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (placed[i]) continue;
      bool ready = !(nodes[i].submission.is_collective && collective_before);
      for (std::size_t before : nodes[i].after) ready = ready && placed[before];
      if (ready) next.push_back(i);
      collective_before = collective_before || nodes[i].submission.is_collective;
    }
    const std::size_t chosen = next[draw(salt, order.size(), 3) % next.size()];
    placed[chosen] = true;
    order.push_back(chosen);
  }
  return order;
}

}  // namespace

Submission launch_of(GraphExec* exec) {
  Submission launch;
  launch.what = "cudaGraphLaunch";
  launch.pace = Pace::background;
  const auto kept = std::make_shared<std::vector<std::shared_ptr<void>>>(exec->kept);
  for (const Node& node : exec->nodes) {
    launch.accesses.insert(launch.accesses.end(), node.submission.accesses.begin(),
                           node.submission.accesses.end());
    launch.host_sees_completion |= node.submission.host_sees_completion;
    launch.never_finishes |= node.submission.never_finishes;
    launch.is_collective |= node.submission.is_collective;
    if (node.submission.keep != nullptr) kept->push_back(node.submission.keep);
  }
  launch.keep = kept;
  launch.prepare = [exec](Waits& waits) -> Submission::Run {
    if (exec->last != nullptr) waits.promised.push_back(exec->last);
    std::vector<Submission::Run> runs(exec->nodes.size());
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const Submission& node = exec->nodes[i].submission;
      runs[i] = node.prepare ? node.prepare(waits) : node.run;
    }
    std::vector<std::size_t> order = order_of(exec->nodes, exec->launches++);
    return [runs = std::move(runs), order = std::move(order)](Operation& op) {
      for (std::size_t i : order) {
        if (runs[i]) runs[i](op);
      }
    };
  };
  launch.enqueued = [exec](const OperationPtr& op) {
    exec->last = op;
    for (const Node& node : exec->nodes) {
      if (node.submission.enqueued) node.submission.enqueued(op);
    }
  };
  return launch;
}

}  // namespace comm::simulated::detail
