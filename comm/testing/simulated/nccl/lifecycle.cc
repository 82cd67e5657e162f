// The end of communicators: finalize, destroy, abort, revoke.

#include <nccl.h>

#include <chrono>
#include <utility>

#include "comm/testing/simulated/core/stream.h"
#include "comm/testing/simulated/nccl/aliases.h"
#include "comm/testing/simulated/nccl/group.h"
#include "comm/testing/simulated/report.h"

using namespace comm::simulated;
using namespace comm::simulated::detail;

namespace {

constexpr std::chrono::milliseconds kLook{1};

// Destroy, finalize and abort wait for every graph that holds operations of the communicator, and
// nothing but destroying the graphs ends that.
void wait_for_graphs(Lock& lock, const ncclComm& comm) {
  while (*comm.graphs != 0) machine().progress.wait_for(lock, kLook);
}

void wait_for_last(Lock& lock, const ncclComm& comm) {
  if (const OperationPtr last = comm.last) wait_for(lock, last);
}

void stop_family(const CommPtr& comm) {
  std::vector<CommPtr> all{comm};
  {
    const Lock lock(machine().mutex);
    for (const std::weak_ptr<ncclComm>& relative : comm->family) {
      if (CommPtr other = relative.lock()) all.push_back(std::move(other));
    }
    for (const CommPtr& one : all) one->stop = true;
    machine().progress.notify_all();
  }
  for (const CommPtr& one : all) one->endpoint->stop();
}

ncclResult_t run_destroy(const CommPtr& comm) {
  {
    Lock lock(machine().mutex);
    // By reading NCCL: a revoke counts as a finalize, and that is what waits for graphs.
    if (comm->phase != Phase::revoked) wait_for_graphs(lock, *comm);
    wait_for_last(lock, *comm);
  }
  if (!comm->registrations.empty() || !comm->windows.empty()) {
    report(Violation::leak, "rank %d of %s is destroyed with %zu registrations and %zu windows",
           comm->rank, comm->name.c_str(), comm->registrations.size(), comm->windows.size());
  }
  comm->endpoint->leave();
  bury(comm, "ncclCommDestroy");
  return ncclSuccess;
}

ncclResult_t run_abort(const CommPtr& comm) {
  {
    Lock lock(machine().mutex);
    machine().progress.wait(lock, [&] { return comm->jobs == 0; });
    wait_for_graphs(lock, *comm);
    wait_for_last(lock, *comm);
    // Its buffers go with cudaFree, which waits for all kernels of the device: those of another
    // communicator too.
    wait_for_device(lock, comm->device);
  }
  comm->endpoint->leave();
  bury(comm, "ncclCommAbort");
  return ncclSuccess;
}

Job ending_job(std::function<ncclResult_t()> run) {
  Job job;
  job.ends_communicator = true;
  job.run = std::move(run);
  return job;
}

}  // namespace

extern "C" {

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  CommPtr comm;
  FaultDecision fault;
  const ncclResult_t result = enter_any("ncclCommFinalize", handle, &comm, &fault);
  if (result != ncclSuccess) return group_error(result);
  {
    const Lock lock(machine().mutex);
    if (comm->phase == Phase::finalized || comm->phase == Phase::revoked) {
      set_last_error("ncclCommFinalize: finalized or revoked before");
      if (!comm->blocking) comm->state = ncclInvalidArgument;
      return group_error(ncclInvalidArgument);
    }
    if (comm->state == ncclInProgress) {
      comm->state = ncclInvalidArgument;
      return group_error(ncclInvalidArgument);
    }
    comm->phase = Phase::finalized;
    if (fault.is(FaultAction::in_progress)) comm->polls_left = fault.value;
  }
  Job job;
  job.comm = comm;
  job.blocking = comm->blocking;
  job.run = [comm, fault] {
    if (fault.is(FaultAction::never_finish)) comm->endpoint->wait_until_stopped();
    Lock lock(machine().mutex);
    wait_for_graphs(lock, *comm);
    wait_for_last(lock, *comm);
    return ncclSuccess;
  };
  return group_error(add(std::move(job)));
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  CommPtr comm;
  FaultDecision fault;
  const ncclResult_t result = enter_any("ncclCommDestroy", handle, &comm, &fault);
  if (result != ncclSuccess) return group_error(result);
  return group_error(add(ending_job([comm] { return run_destroy(comm); })));
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  CommPtr comm;
  FaultDecision fault;
  const ncclResult_t result = enter_any("ncclCommAbort", handle, &comm, &fault);
  if (result != ncclSuccess) return group_error(result);
  stop_family(comm);  // At once, also in a group: its members wait for one another's kernels.
  return group_error(add(ending_job([comm] { return run_abort(comm); })));
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 7)
ncclResult_t ncclCommRevoke(ncclComm_t handle, int flags) {
  if (handle == nullptr) return ncclSuccess;
  CommPtr comm;
  FaultDecision fault;
  const ncclResult_t result = enter_any("ncclCommRevoke", handle, &comm, &fault);
  if (result != ncclSuccess) return group_error(result);
  {
    const Lock lock(machine().mutex);
    if (flags != NCCL_REVOKE_DEFAULT || comm->phase == Phase::revoked ||
        comm->phase == Phase::finalized) {
      set_last_error("ncclCommRevoke: revoked before, or invalid flags");
      return group_error(ncclInvalidArgument);
    }
    comm->phase = Phase::revoked;
    comm->share = false;
  }
  comm->endpoint->stop_operations();
  Job job;
  job.comm = comm;
  job.blocking = comm->blocking;
  job.run = [comm] {
    Lock lock(machine().mutex);
    wait_for_last(lock, *comm);
    return ncclSuccess;
  };
  return group_error(add(std::move(job)));
}
COMM_SIM_PROFILER_ALIAS(ncclCommRevoke);
#endif

}  // extern "C"

COMM_SIM_PROFILER_ALIAS(ncclCommFinalize);
COMM_SIM_PROFILER_ALIAS(ncclCommDestroy);
COMM_SIM_PROFILER_ALIAS(ncclCommAbort);
