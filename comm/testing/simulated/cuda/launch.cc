// Kernel launches of the runtime API, and what nvcc's host code calls at start-up and for <<<>>>.

#include <cuda_runtime_api.h>

#include <vector>

#include "comm/testing/simulated/core/entry.h"
#include "comm/testing/simulated/core/kernels.h"

using namespace comm::simulated;
using namespace comm::simulated::detail;

namespace {

struct Configuration {
  dim3 grid, block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};

std::vector<Configuration>& configurations() {
  thread_local std::vector<Configuration> stack;
  return stack;
}

cudaError_t launch(const char* call, const KernelEntry* kernel, dim3 grid, dim3 block,
                   void** arguments, std::size_t shared_bytes, cudaStream_t stream) {
  return stream_call(call, stream, cudaGraphNodeTypeKernel, [&](Submission* submission) {
    return prepare_launch(kernel, call, grid, block, shared_bytes, arguments, submission);
  });
}

// cudaLaunchKernel takes the address of a host stub or a cudaKernel_t.
const KernelEntry* find(const void* function) {
  if (is_kernel(function)) return static_cast<const KernelEntry*>(function);
  return kernel_at(function);
}

}  // namespace

extern "C" {

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             size_t shared_bytes, cudaStream_t stream) {
  return launch("cudaLaunchKernel", find(function), grid, block, arguments, shared_bytes, stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                        void** arguments, size_t shared_bytes,
                                        cudaStream_t stream) {
  return launch("cudaLaunchCooperativeKernel", find(function), grid, block, arguments, shared_bytes,
                stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* configuration, const void* function,
                                void** arguments) {
  return launch("cudaLaunchKernelExC", find(function), configuration->gridDim,
                configuration->blockDim, arguments, configuration->dynamicSmemBytes,
                configuration->stream);
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute, int) {
  return cuda_call("cudaFuncSetAttribute", [&](const FaultDecision&) {
    return find(function) == nullptr ? cudaErrorInvalidDeviceFunction : cudaSuccess;
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  return cuda_call("cudaFuncGetAttributes", [&](const FaultDecision&) {
    if (find(function) == nullptr) return cudaErrorInvalidDeviceFunction;
    *attributes = {};
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int block_size, size_t) {
  return cuda_call("cudaOccupancyMaxActiveBlocksPerMultiprocessor", [&](const FaultDecision&) {
    if (find(function) == nullptr) return cudaErrorInvalidDeviceFunction;
    if (block_size <= 0 || block_size > 1024) return cudaErrorInvalidValue;
    *blocks = 2048 / block_size;
    return cudaSuccess;
  });
}

// Declared in nvcc's crt/host_runtime.h, which only nvcc's own output may include.

void** __cudaRegisterFatBinary(void*);
void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}

void __cudaRegisterFatBinaryEnd(void**);
void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void**);
void __cudaUnregisterFatBinary(void**) {}

char __cudaInitModule(void**);
char __cudaInitModule(void**) {
  return 0;
}

void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*,
                            dim3*, int*);
void __cudaRegisterFunction(void**, const char* host_function, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  name_address(host_function, name);
}

void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int);
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, cudaStream_t);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                     cudaStream_t stream) {
  configurations().push_back({grid, block, shared_bytes, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*);
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                       void* stream) {
  if (configurations().empty()) return cudaErrorMissingConfiguration;
  const Configuration top = configurations().back();
  configurations().pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared_bytes = top.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}

#if CUDART_VERSION >= 12010  // What nvcc emits from then on.
cudaError_t __cudaGetKernel(cudaKernel_t*, const void*);
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(kernel_at(function));
  return *kernel == nullptr ? cudaErrorInvalidDeviceFunction : cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared_bytes, cudaStream_t stream) {
  return launch("cudaLaunchKernel", reinterpret_cast<const KernelEntry*>(kernel), grid, block,
                arguments, shared_bytes, stream);
}
#endif

}  // extern "C"
