// Collectives and point-to-point operations of nccl.h ("Collective Communication Functions",
// "Point To Point Communication Functions").

#include <nccl.h>

#include "comm/testing/simulated/core/entry.h"
#include "comm/testing/simulated/nccl/aliases.h"
#include "comm/testing/simulated/nccl/group.h"
#include "comm/testing/simulated/nccl/inside.h"
#include "comm/testing/simulated/report.h"
#include "comm/testing/simulated/settings.h"

using namespace comm::simulated;
using namespace comm::simulated::detail;

namespace {

struct Request {
  const char* name;
  CallKind kind;
  const void* send;
  void* receive;
  std::size_t count;
  ncclDataType_t type;
  int root = 0;
  bool has_reduction = false;
  int reduction = ncclSum;
};

ncclResult_t refuse(const Request& request, const CommPtr& comm, const char* why) {
  set_last_error("%s: %s", request.name, why);
  return failed(comm, ncclInvalidArgument);
}

bool is_message(CallKind kind) {
  return kind == CallKind::send || kind == CallKind::recv;
}

bool has_root(CallKind kind) {
  return is_message(kind) || kind == CallKind::broadcast || kind == CallKind::reduce ||
         kind == CallKind::gather || kind == CallKind::scatter;
}

// The built-in operator, or the communicator's own that the value stands for.
ncclResult_t resolve_reduction(const Request& request, const CommPtr& comm, Task* task) {
  if (request.reduction < ncclSum) return refuse(request, comm, "invalid reduction operation");
  if (request.reduction < ncclNumOps) {
    task->call.reduction = request.reduction;
    return ncclSuccess;
  }
  const Lock lock(machine().mutex);
  const std::size_t index = static_cast<std::size_t>(request.reduction - ncclNumOps);
  if (index >= comm->reductions.size() || !comm->reductions[index]) {
    set_last_error("%s: reduction operation %d unknown to this communicator", request.name,
                   request.reduction);
    if (!comm->blocking) comm->state = ncclInvalidArgument;
    return ncclInvalidArgument;
  }
  if (comm->reductions[index]->type != request.type) {
    set_last_error("%s: reduction type mismatch", request.name);
    if (!comm->blocking) comm->state = ncclInvalidArgument;
    return ncclInvalidArgument;
  }
  task->custom = *comm->reductions[index];
  task->call.reduction = static_cast<int>(Reduction::premul_sum);
  return ncclSuccess;
}

void check_in_place(const Request& request, const ncclComm& comm) {
  if (request.kind != CallKind::all_to_all || request.send != request.receive) return;
  report(Violation::bad_usage, "%s on rank %d of %s: NCCL has no all-to-all in place", request.name,
         comm.rank, comm.name.c_str());
}

ncclResult_t submit_request(const Request& request, ncclComm_t handle, cudaStream_t stream) {
  Task task;
  ncclResult_t result = enter(request.name, handle, &task.comm, &task.fault);
  if (result == ncclSuccess && task.comm->phase == Phase::revoked) {
    set_last_error("%s: the communicator is revoked", request.name);
    result = failed(task.comm, ncclInvalidUsage);
  }
  if (result != ncclSuccess) return result;
  if (task.fault.is(FaultAction::lose)) return ncclSuccess;
  const InsideCall inside(request.name, task.comm->device);
  const CommPtr& comm = task.comm;
  if (request.count == 0 && !is_message(request.kind)) return ncclSuccess;
  if (size_of(request.type) == 0) return refuse(request, comm, "invalid data type");
  if (has_root(request.kind) && (request.root < 0 || request.root >= comm->size)) {
    return refuse(request, comm, is_message(request.kind) ? "invalid peer" : "invalid root");
  }
  if (request.has_reduction) {
    result = resolve_reduction(request, comm, &task);
    if (result != ncclSuccess) return result;
    const bool is_fp8 = request.type == kFloat8e4m3 || request.type == kFloat8e5m2;
    if (is_fp8 && settings().compute_capability < 90) {
      return refuse(request, comm, "FP8 reductions need compute capability 9.0");
    }
  }
  if (is_message(request.kind) && request.root == comm->rank && group_depth() == 0) {
    set_last_error("%s: to itself outside a group", request.name);
    return failed(comm, ncclInvalidUsage);
  }
  check_in_place(request, *comm);
  task.call.kind = request.kind;
  task.call.type = request.type;
  task.call.count = request.count;
  task.call.root = has_root(request.kind) ? request.root : 0;
  task.send = request.send;
  task.receive = request.receive;
  task.stream = stream;
  return add(std::move(task));
}

ncclResult_t call(const Request& request, ncclComm_t comm, cudaStream_t stream) {
  return group_error(submit_request(request, comm, stream));
}

}  // namespace

extern "C" {

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return call({"ncclAllReduce", CallKind::all_reduce, send, receive, count, type, 0, true, op},
              comm, stream);
}

ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return call({"ncclReduce", CallKind::reduce, send, receive, count, type, root, true, op}, comm,
              stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return call(
      {"ncclReduceScatter", CallKind::reduce_scatter, send, receive, count, type, 0, true, op},
      comm, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return call({"ncclBroadcast", CallKind::broadcast, send, receive, count, type, root}, comm,
              stream);
}

ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return call({"ncclBcast", CallKind::broadcast, buffer, buffer, count, type, root}, comm, stream);
}

ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return call({"ncclAllGather", CallKind::all_gather, send, receive, count, type}, comm, stream);
}

ncclResult_t ncclAlltoAll(const void* send, void* receive, size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream) {
  return call({"ncclAlltoAll", CallKind::all_to_all, send, receive, count, type}, comm, stream);
}

ncclResult_t ncclGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  return call({"ncclGather", CallKind::gather, send, receive, count, type, root}, comm, stream);
}

ncclResult_t ncclScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                         int root, ncclComm_t comm, cudaStream_t stream) {
  return call({"ncclScatter", CallKind::scatter, send, receive, count, type, root}, comm, stream);
}

ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return call({"ncclSend", CallKind::send, send, nullptr, count, type, peer}, comm, stream);
}

ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return call({"ncclRecv", CallKind::recv, nullptr, receive, count, type, peer}, comm, stream);
}

}  // extern "C"

COMM_SIM_PROFILER_ALIAS(ncclAllReduce);
COMM_SIM_PROFILER_ALIAS(ncclReduce);
COMM_SIM_PROFILER_ALIAS(ncclReduceScatter);
COMM_SIM_PROFILER_ALIAS(ncclBroadcast);
COMM_SIM_PROFILER_ALIAS(ncclBcast);
COMM_SIM_PROFILER_ALIAS(ncclAllGather);
COMM_SIM_PROFILER_ALIAS(ncclAlltoAll);
COMM_SIM_PROFILER_ALIAS(ncclGather);
COMM_SIM_PROFILER_ALIAS(ncclScatter);
COMM_SIM_PROFILER_ALIAS(ncclSend);
COMM_SIM_PROFILER_ALIAS(ncclRecv);
