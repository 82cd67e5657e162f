#pragma once

/// The kernels that are known: host implementations by name, and the names that nvcc's start-up
/// code gives to addresses (__cudaRegisterFunction). Thread-safe.

#include <cuda_runtime_api.h>

#include <string>

#include "comm/testing/simulated/core/operation.h"
#include "comm/testing/simulated/kernel.h"

namespace comm::simulated::detail {

/// One name; its address is the CUfunction, CUkernel and cudaKernel_t. Never destroyed.
struct KernelEntry {
  std::string name;
  bool implemented = false;
  HostKernel kernel;
};

KernelEntry* kernel_named(const std::string& name);
KernelEntry* kernel_at(const void* address);  // Null when nothing is known of it.
bool is_kernel(const void* handle);
void name_address(const void* address, const std::string& name);

/// Fills the submission with a launch; the arguments are copied now, as CUDA does.
cudaError_t prepare_launch(const KernelEntry* kernel, const char* call, dim3 grid, dim3 block,
                           std::size_t shared_bytes, void** arguments, Submission* submission);

}  // namespace comm::simulated::detail
