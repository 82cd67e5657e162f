// ncclMemAlloc, buffer registration, windows, and custom reductions.

#include <nccl.h>

#include <cstring>
#include <utility>

#include "comm/testing/simulated/core/entry.h"
#include "comm/testing/simulated/nccl/aliases.h"
#include "comm/testing/simulated/nccl/exchange.h"
#include "comm/testing/simulated/nccl/group.h"
#include "comm/testing/simulated/report.h"

using namespace comm::simulated;
using namespace comm::simulated::detail;

namespace {

// What a registration or a window handle points to.
struct Handle {
  void* begin = nullptr;
  std::size_t size = 0;
};

std::string owner(const ncclComm& comm, const char* what) {
  return std::string(what) + " of rank " + std::to_string(comm.rank) + " of " + comm.name;
}

void enter_range(const CommPtr& comm, const char* what, std::set<void*> ncclComm::*table,
                 Handle* handle) {
  const Lock lock(machine().mutex);
  ((*comm).*table).insert(handle);
  machine().registered[handle] = {reinterpret_cast<std::uintptr_t>(handle->begin), handle->size,
                                  owner(*comm, what)};
}

// Takes the handle back; reports one that is not the communicator's, or whose memory is in use.
ncclResult_t drop_range(const CommPtr& comm, const char* call, std::set<void*> ncclComm::*table,
                        void* handle) {
  const Lock lock(machine().mutex);
  if (((*comm).*table).erase(handle) == 0) {
    report(Violation::stale_handle, "%s: %p is no handle of rank %d of %s", call, handle,
           comm->rank, comm->name.c_str());
    set_last_error("%s: invalid handle", call);
    if (!comm->blocking) comm->state = ncclInvalidArgument;
    return ncclInvalidArgument;
  }
  const Handle* range = static_cast<Handle*>(handle);
  check_not_in_flight(range->begin, range->size, call);
  machine().registered.erase(handle);
  delete range;
  return ncclSuccess;
}

ncclResult_t check_range(const char* call, const void* buffer, std::size_t size) {
  const Lock lock(machine().mutex);
  const std::string why = describe_bad_range(machine().memory, buffer, size, 1, true);
  if (size != 0 && why.empty()) return ncclSuccess;
  if (size != 0) report(Violation::bad_pointer, "%s: %s", call, why.c_str());
  set_last_error("%s: %s", call, size == 0 ? "size is 0" : why.c_str());
  return ncclInvalidArgument;
}

bool is_capturing() {
  Lock lock(machine().mutex);
  return check_unsafe(lock) != cudaSuccess;
}

}  // namespace

extern "C" {

ncclResult_t ncclMemAlloc(void** pointer, size_t size) {
  const FaultDecision fault = decide_fault("ncclMemAlloc", current_device());
  if (fault.is(FaultAction::fail)) return static_cast<ncclResult_t>(fault.value);
  if (pointer == nullptr || size == 0) {
    set_last_error("ncclMemAlloc: invalid pointer or size");
    return ncclInvalidArgument;
  }
  *pointer = nullptr;
  if (cudaMalloc(pointer, size) != cudaSuccess) return ncclUnhandledCudaError;
  const Lock lock(machine().mutex);
  Allocation* allocation = machine().memory.starting_at(*pointer);
  allocation->from_nccl = true;
  allocation->made_by = "ncclMemAlloc";
  return ncclSuccess;
}

ncclResult_t ncclMemFree(void* pointer) {
  const FaultDecision fault = decide_fault("ncclMemFree", current_device());
  if (fault.is(FaultAction::fail)) return static_cast<ncclResult_t>(fault.value);
  {
    const Lock lock(machine().mutex);
    if (Allocation* allocation = machine().memory.starting_at(pointer)) {
      if (!allocation->from_nccl) {
        report(Violation::bad_usage, "ncclMemFree(%p): made by %s", pointer, allocation->made_by);
      }
      allocation->from_nccl = false;
    }
  }
  return cudaFree(pointer) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclCommRegister(const ncclComm_t handle, void* buffer, size_t size, void** out) {
  CommPtr comm;
  FaultDecision fault;
  ncclResult_t result = enter("ncclCommRegister", handle, &comm, &fault);
  if (result != ncclSuccess) return result;
  if (out == nullptr) return failed(comm, ncclInvalidArgument);
  *out = nullptr;
  if (fault.is(FaultAction::lose)) return ncclSuccess;  // Success without a handle is legal.
  if (is_capturing()) return failed(comm, ncclUnhandledCudaError);
  result = check_range("ncclCommRegister", buffer, size);
  if (result != ncclSuccess) return failed(comm, result);
  Handle* made = new Handle{buffer, size};
  enter_range(comm, "a buffer", &ncclComm::registrations, made);
  *out = made;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t handle, void* registration) {
  CommPtr comm;
  FaultDecision fault;
  const ncclResult_t result = enter_any("ncclCommDeregister", handle, &comm, &fault);
  if (result != ncclSuccess) return result;
  if (registration == nullptr) return ncclSuccess;
  return drop_range(comm, "ncclCommDeregister", &ncclComm::registrations, registration);
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
ncclResult_t ncclCommWindowRegister(ncclComm_t handle, void* buffer, size_t size,
                                    ncclWindow_t* window, int flags) {
  CommPtr comm;
  FaultDecision fault;
  ncclResult_t result = enter("ncclCommWindowRegister", handle, &comm, &fault);
  if (result != ncclSuccess) return group_error(result);
  if (window == nullptr || (flags & ~NCCL_WIN_COLL_SYMMETRIC) != 0) {
    return group_error(failed(comm, ncclInvalidArgument));
  }
  if (is_capturing()) return group_error(failed(comm, ncclUnhandledCudaError));
  result = check_range("ncclCommWindowRegister", buffer, size);
  if (result != ncclSuccess) return group_error(failed(comm, result));
  bool supported = !fault.is(FaultAction::lose);
  {
    const Lock lock(machine().mutex);
    supported = supported && machine().memory.holding(buffer)->from_nccl;
    for (void* other : comm->windows) {
      if (static_cast<Handle*>(other)->begin != buffer) continue;
      report(Violation::bad_usage,
             "ncclCommWindowRegister on rank %d of %s: %p is a window already", comm->rank,
             comm->name.c_str(), buffer);
    }
  }
  Job job;
  job.comm = comm;
  job.blocking = comm->blocking;
  job.run = [=] {
    const std::string mine = std::to_string(size) + " bytes, flags " + std::to_string(flags);
    std::vector<std::string> all;
    if (!exchange(*comm, mine, &all)) return ncclInternalError;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank] == mine || static_cast<int>(rank) < comm->rank) continue;
      report(Violation::mismatch, "%s: ncclCommWindowRegister has %s on rank %d and %s on rank %zu",
             comm->name.c_str(), mine.c_str(), comm->rank, all[rank].c_str(), rank);
    }
    if (!supported) return ncclSuccess;  // `*window` stays what it was.
    Handle* made = new Handle{buffer, size};
    enter_range(comm, "a window", &ncclComm::windows, made);
    *window = reinterpret_cast<ncclWindow_t>(made);
    return ncclSuccess;
  };
  return group_error(add(std::move(job)));
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t handle, ncclWindow_t window) {
  CommPtr comm;
  FaultDecision fault;
  const ncclResult_t result = enter_any("ncclCommWindowDeregister", handle, &comm, &fault);
  if (result != ncclSuccess) return result;
  if (window == nullptr) return ncclSuccess;
  return drop_range(comm, "ncclCommWindowDeregister", &ncclComm::windows, window);
}
COMM_SIM_PROFILER_ALIAS(ncclCommWindowRegister);
COMM_SIM_PROFILER_ALIAS(ncclCommWindowDeregister);
#endif

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t handle) {
  CommPtr comm;
  FaultDecision fault;
  const ncclResult_t result = enter("ncclRedOpCreatePreMulSum", handle, &comm, &fault);
  if (result != ncclSuccess) return result;
  if (op == nullptr || scalar == nullptr || size_of(type) == 0) {
    return failed(comm, ncclInvalidArgument);
  }
  CustomReduction made;
  made.type = type;
  if (residence == ncclScalarHostImmediate) {
    const char* begin = static_cast<const char*>(scalar);
    made.scalar.assign(begin, begin + size_of(type));
  } else {
    made.device_scalar = scalar;
  }
  const Lock lock(machine().mutex);
  comm->reductions.push_back(std::move(made));
  *op = static_cast<ncclRedOp_t>(static_cast<int>(ncclNumOps) +
                                 static_cast<int>(comm->reductions.size()) - 1);
  return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t handle) {
  CommPtr comm;
  FaultDecision fault;
  const ncclResult_t result = enter_any("ncclRedOpDestroy", handle, &comm, &fault);
  if (result != ncclSuccess) return result;
  const Lock lock(machine().mutex);
  const int index = static_cast<int>(op) - static_cast<int>(ncclNumOps);
  if (index < 0 || static_cast<std::size_t>(index) >= comm->reductions.size() ||
      !comm->reductions[static_cast<std::size_t>(index)]) {
    set_last_error("ncclRedOpDestroy: no operator of this communicator");
    return ncclInvalidArgument;
  }
  comm->reductions[static_cast<std::size_t>(index)].reset();
  return ncclSuccess;
}

}  // extern "C"

COMM_SIM_PROFILER_ALIAS(ncclMemAlloc);
COMM_SIM_PROFILER_ALIAS(ncclMemFree);
COMM_SIM_PROFILER_ALIAS(ncclCommRegister);
COMM_SIM_PROFILER_ALIAS(ncclCommDeregister);
COMM_SIM_PROFILER_ALIAS(ncclRedOpCreatePreMulSum);
COMM_SIM_PROFILER_ALIAS(ncclRedOpDestroy);
