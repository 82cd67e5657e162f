// Versions, errors, and what a communicator is; groups.

#include <nccl.h>

#include <cstdlib>

#include "comm/testing/simulated/nccl/aliases.h"
#include "comm/testing/simulated/nccl/group.h"
#include "comm/testing/simulated/nccl/version.h"
#include "comm/testing/simulated/settings.h"

using namespace comm::simulated;
using namespace comm::simulated::detail;

namespace comm::simulated::detail {

int nccl_version() {
  const char* text = std::getenv("COMM_SIM_NCCL_VERSION");
  return text == nullptr ? NCCL_VERSION_CODE : std::atoi(text);
}

}  // namespace comm::simulated::detail

namespace {

ncclResult_t query(const char* call, const ncclComm* handle, int ncclComm::*field, int* value) {
  CommPtr comm;
  FaultDecision fault;
  const ncclResult_t result = enter(call, handle, &comm, &fault);
  if (result != ncclSuccess) return result;
  if (value == nullptr) return ncclInvalidArgument;
  *value = (*comm).*field;
  return ncclSuccess;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  const FaultDecision fault = decide_fault("ncclGetVersion", -1);
  if (fault.is(FaultAction::fail)) return static_cast<ncclResult_t>(fault.value);
  if (version == nullptr) return ncclInvalidArgument;
  *version = nccl_version();
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) {
  return last_nccl_error();
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  CommPtr comm;
  FaultDecision fault;
  const ncclResult_t result = enter_any("ncclCommGetAsyncError", handle, &comm, &fault);
  if (result != ncclSuccess) return result;
  if (error == nullptr) return ncclInvalidArgument;
  const bool peer_died = settings().peer_death_is_an_error && comm->endpoint->dead_peer() != -1;
  const Lock lock(machine().mutex);
  const bool delayed = comm->polls_left > 0;
  if (delayed && --comm->polls_left == 0) machine().progress.notify_all();
  *error = comm->state;
  if (*error == ncclSuccess && peer_died) *error = comm->state = ncclRemoteError;
  if (*error == ncclSuccess && delayed) *error = ncclInProgress;
  if (fault.is(FaultAction::async_error)) {
    *error = comm->state = static_cast<ncclResult_t>(fault.value);
  }
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return query("ncclCommCount", comm, &ncclComm::size, count);
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  return query("ncclCommCuDevice", comm, &ncclComm::device, device);
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return query("ncclCommUserRank", comm, &ncclComm::rank, rank);
}

ncclResult_t ncclGroupStart() {
  const FaultDecision fault = decide_fault("ncclGroupStart", -1);
  if (fault.is(FaultAction::fail)) return static_cast<ncclResult_t>(fault.value);
  return group_start();
}

ncclResult_t ncclGroupEnd() {
  const FaultDecision fault = decide_fault("ncclGroupEnd", -1);
  if (fault.is(FaultAction::fail)) group_error(static_cast<ncclResult_t>(fault.value));
  return group_end();
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 22, 3)
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  if (group_depth() == 0) return group_end();
  if (group_depth() > 1) {
    set_last_error("ncclGroupSimulateEnd: only in the outermost group");
    return group_error(ncclInvalidUsage);
  }
  if (info != nullptr && info->magic != 0x74685283) {
    set_last_error("ncclSimInfo_t was not made from NCCL_SIM_INFO_INITIALIZER");
    return group_error(ncclInvalidArgument);
  }
  const ncclResult_t result = group_forget();
  if (info != nullptr && result == ncclSuccess) info->estimatedTime = 1.0F;
  return result;
}
COMM_SIM_PROFILER_ALIAS(ncclGroupSimulateEnd);
#endif

// Deprecated, and a macro from 2.30 on; programs that were built to call it still link.
#undef ncclResetDebugInit
void ncclResetDebugInit() {}  // NOLINT

}  // extern "C"

COMM_SIM_PROFILER_ALIAS(ncclGetVersion);
COMM_SIM_PROFILER_ALIAS(ncclGetErrorString);
COMM_SIM_PROFILER_ALIAS(ncclGetLastError);
COMM_SIM_PROFILER_ALIAS(ncclCommGetAsyncError);
COMM_SIM_PROFILER_ALIAS(ncclCommCount);
COMM_SIM_PROFILER_ALIAS(ncclCommCuDevice);
COMM_SIM_PROFILER_ALIAS(ncclCommUserRank);
COMM_SIM_PROFILER_ALIAS(ncclGroupStart);
COMM_SIM_PROFILER_ALIAS(ncclGroupEnd);
