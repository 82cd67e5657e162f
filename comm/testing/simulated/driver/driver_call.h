#pragma once

/// The driver API, by way of the runtime's: the two have the same streams, events, graphs and
/// memory, and nearly the same error numbers. What a driver call does not share is the thread's
/// cudaGetLastError.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "comm/testing/simulated/core/entry.h"

namespace comm::simulated::detail {

inline CUresult as_driver(cudaError_t error) {
  switch (error) {
    case cudaErrorInsufficientDriver: return CUDA_ERROR_NOT_INITIALIZED;
    case cudaErrorInvalidDeviceFunction: return CUDA_ERROR_INVALID_HANDLE;
    case cudaErrorInvalidConfiguration: return CUDA_ERROR_INVALID_VALUE;
    case cudaErrorInvalidMemcpyDirection: return CUDA_ERROR_INVALID_VALUE;
    default: return static_cast<CUresult>(error);
  }
}

/// Runs `body() -> cudaError_t` as the named driver call.
template <class Body>
CUresult driver_call(const char* call, Body&& body) {
  const FaultDecision fault = decide_fault(call, current_device());
  if (fault.is(FaultAction::fail)) return static_cast<CUresult>(fault.value);
  if (fault.is(FaultAction::lose)) return CUDA_SUCCESS;
  apply(fault);
  const cudaError_t before = last_error();
  const CUresult result = as_driver(body());
  last_error() = before;
  return result;
}

inline void* host_pointer(CUdeviceptr pointer) {
  return reinterpret_cast<void*>(pointer);
}

}  // namespace comm::simulated::detail
