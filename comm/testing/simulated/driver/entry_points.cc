// How programs that do not link libcuda find the driver's functions.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string_view>

#include "comm/testing/simulated/driver/driver_call.h"

using namespace comm::simulated;
using namespace comm::simulated::detail;

namespace {

struct EntryPoint {
  std::string_view name;
  void* function;
};

#define COMM_SIM_ENTRY_POINT(name) \
  { #name, reinterpret_cast < void*>(&name) }

// cuda.h turns some of the names into those of their newest version, inside the table too.
void* entry_point(std::string_view wanted) {
  static const EntryPoint points[] = {
      {"cuMemAlloc", reinterpret_cast<void*>(&cuMemAlloc)},
      {"cuMemFree", reinterpret_cast<void*>(&cuMemFree)},
      {"cuMemGetAddressRange", reinterpret_cast<void*>(&cuMemGetAddressRange)},
      {"cuStreamDestroy", reinterpret_cast<void*>(&cuStreamDestroy)},
      {"cuEventDestroy", reinterpret_cast<void*>(&cuEventDestroy)},
      {"cuStreamBeginCapture", reinterpret_cast<void*>(&cuStreamBeginCapture)},
      COMM_SIM_ENTRY_POINT(cuInit),
      COMM_SIM_ENTRY_POINT(cuDriverGetVersion),
      COMM_SIM_ENTRY_POINT(cuDeviceGet),
      COMM_SIM_ENTRY_POINT(cuDeviceGetCount),
      COMM_SIM_ENTRY_POINT(cuDeviceGetAttribute),
      COMM_SIM_ENTRY_POINT(cuCtxGetCurrent),
      COMM_SIM_ENTRY_POINT(cuCtxSetCurrent),
      COMM_SIM_ENTRY_POINT(cuCtxGetDevice),
      COMM_SIM_ENTRY_POINT(cuCtxSynchronize),
      COMM_SIM_ENTRY_POINT(cuGetErrorName),
      COMM_SIM_ENTRY_POINT(cuGetErrorString),
      COMM_SIM_ENTRY_POINT(cuPointerGetAttribute),
      COMM_SIM_ENTRY_POINT(cuStreamCreate),
      COMM_SIM_ENTRY_POINT(cuStreamSynchronize),
      COMM_SIM_ENTRY_POINT(cuStreamQuery),
      COMM_SIM_ENTRY_POINT(cuStreamWaitEvent),
      COMM_SIM_ENTRY_POINT(cuStreamEndCapture),
      COMM_SIM_ENTRY_POINT(cuStreamIsCapturing),
      COMM_SIM_ENTRY_POINT(cuEventCreate),
      COMM_SIM_ENTRY_POINT(cuEventRecord),
      COMM_SIM_ENTRY_POINT(cuEventQuery),
      COMM_SIM_ENTRY_POINT(cuEventSynchronize),
      COMM_SIM_ENTRY_POINT(cuLaunchKernel),
      COMM_SIM_ENTRY_POINT(cuLaunchHostFunc),
      COMM_SIM_ENTRY_POINT(cuModuleLoadData),
      COMM_SIM_ENTRY_POINT(cuModuleGetFunction),
      COMM_SIM_ENTRY_POINT(cuModuleUnload),
      COMM_SIM_ENTRY_POINT(cuLibraryLoadData),
      COMM_SIM_ENTRY_POINT(cuLibraryGetKernel),
      COMM_SIM_ENTRY_POINT(cuKernelGetFunction),
      COMM_SIM_ENTRY_POINT(cuGraphLaunch),
  };
  for (const EntryPoint& point : points) {
    if (point.name == wanted) return point.function;
  }
  return nullptr;
}

#undef COMM_SIM_ENTRY_POINT

cudaError_t get(const char* call, const char* symbol, void** function,
                cudaDriverEntryPointQueryResult* status) {
  return cuda_call(call, [&](const FaultDecision&) {
    *function = entry_point(symbol);
    const bool found = *function != nullptr;
    if (status != nullptr) {
      *status = found ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    }
    return found || status != nullptr ? cudaSuccess : cudaErrorSymbolNotFound;
  });
}

}  // namespace

extern "C" {

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long,
                                    cudaDriverEntryPointQueryResult* status) {
  return get("cudaGetDriverEntryPoint", symbol, function, status);
}

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* status) {
  return get("cudaGetDriverEntryPointByVersion", symbol, function, status);
}
#endif

}  // extern "C"
