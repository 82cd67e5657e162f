// Kernels of the driver API: a CUfunction is a kernel's entry, by whatever name a module or a
// library is asked for; the image is not looked at.

#include <cuda.h>

#include <cstring>

#include "comm/testing/simulated/core/kernels.h"
#include "comm/testing/simulated/driver/driver_call.h"
#include "comm/testing/simulated/report.h"

using namespace comm::simulated;
using namespace comm::simulated::detail;

namespace {

char loaded;  // Every module and library is this one.

CUresult find_kernel(const char* call, void** function, const char* name) {
  return driver_call(call, [&] {
    *function = kernel_handle(name);
    return *function == nullptr ? cudaErrorSymbolNotFound : cudaSuccess;
  });
}

}  // namespace

extern "C" {

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void** arguments, void** extra) {
  return driver_call("cuLaunchKernel", [&]() -> cudaError_t {
    if (extra != nullptr) return cudaErrorNotSupported;
    if (!is_kernel(function)) {
      report(Violation::stale_handle,
             "cuLaunchKernel: %p is no kernel; comm::simulated::"
             "kernel_handle gives one",
             static_cast<void*>(function));
      return cudaErrorInvalidResourceHandle;
    }
    return cudaLaunchKernel(function, dim3(grid_x, grid_y, grid_z), dim3(block_x, block_y, block_z),
                            arguments, shared_bytes, stream);
  });
}

CUresult cuModuleLoadData(CUmodule* module, const void*) {
  return driver_call("cuModuleLoadData", [&] {
    *module = reinterpret_cast<CUmodule>(&loaded);
    return cudaSuccess;
  });
}

CUresult cuModuleUnload(CUmodule) {
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  return find_kernel("cuModuleGetFunction", reinterpret_cast<void**>(function), name);
}

CUresult cuLibraryLoadData(CUlibrary* library, const void*, CUjit_option*, void**, unsigned,
                           CUlibraryOption*, void**, unsigned) {
  return driver_call("cuLibraryLoadData", [&] {
    *library = reinterpret_cast<CUlibrary>(&loaded);
    return cudaSuccess;
  });
}

CUresult cuLibraryUnload(CUlibrary) {
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary, const char* name) {
  return find_kernel("cuLibraryGetKernel", reinterpret_cast<void**>(kernel), name);
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}

}  // extern "C"
