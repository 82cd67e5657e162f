#pragma once

/// Groups: what the calls between ncclGroupStart and ncclGroupEnd left to be done. The depth, the
/// error and the tasks belong to the thread, as in NCCL; a call outside a group is a group of one.

#include <nccl.h>

#include <functional>
#include <vector>

#include "comm/testing/simulated/nccl/communicator.h"
#include "comm/testing/simulated/nccl/message.h"

namespace comm::simulated::detail {

/// One collective, send or receive.
struct Task {
  CommPtr comm;
  Call call;
  const void* send = nullptr;
  void* receive = nullptr;
  cudaStream_t stream = nullptr;
  CustomReduction custom;  // For Reduction::premul_sum.
  FaultDecision fault;
};

/// Something that runs on a thread of its own: init, split, finalize, abort and their like.
struct Job {
  CommPtr comm;  // Whose state tells of it: the new communicator for an init, else the old one.
  bool blocking = true;
  bool ends_communicator = false;  // The group then blocks, whatever the communicators are.
  std::function<ncclResult_t()> run;
  std::function<void(ncclResult_t)> undo;  // When the group fails before it runs, or it fails.
};

ncclResult_t group_start();
ncclResult_t group_end();

/// Drops what the group holds, as ncclGroupSimulateEnd does.
ncclResult_t group_forget();
int group_depth();

ncclResult_t add(Task task);
ncclResult_t add(Job job);

/// An error of a call inside a group is the group's. Returns `result`.
ncclResult_t group_error(ncclResult_t result);

/// Puts tasks on their streams; group.cc calls it when the group ends.
ncclResult_t launch(const std::vector<Task>& tasks);

/// Runs a batch of one communicator's tasks, on a stream's worker.
struct Batch {
  CommPtr comm;
  std::vector<Task> tasks;
};

/// For each task its number on the communicator: of collectives, or of messages with that peer.
std::vector<std::uint64_t> number_tasks(Lock& lock, const Batch& batch);
void run_batch(const Batch& batch, const std::vector<std::uint64_t>& numbers, Operation& op);

}  // namespace comm::simulated::detail
