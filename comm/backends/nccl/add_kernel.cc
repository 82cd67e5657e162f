#include "comm/backends/nccl/add_kernel.h"

#include <cuda.h>

namespace comm::detail::nccl {
namespace {

using LaunchKernel = decltype(&cuLaunchKernel);

LaunchKernel find_launch() noexcept {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status{};
#if CUDART_VERSION >= 12050
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuLaunchKernel", &found, 12000, cudaEnableDefault, &status);
#else
  const cudaError_t error =
      cudaGetDriverEntryPoint("cuLaunchKernel", &found, cudaEnableDefault, &status);
#endif
  const bool is_there = error == cudaSuccess && status == cudaDriverEntryPointSuccess;
  return is_there ? reinterpret_cast<LaunchKernel>(found) : nullptr;
}

LaunchKernel launch_kernel() noexcept {
  static const LaunchKernel found = find_launch();
  return found;
}

}  // namespace

Status can_add_with_kernels() {
  if (launch_kernel() != nullptr) return {};
  return make_error(StatusCode::unsupported, 0, "the CUDA driver does not have cuLaunchKernel");
}

Status add_with(CUfunc_st* kernel, const ops::AllReduce& op, const void* peers,
                cudaStream_t stream) {
  if (op.send != op.recv) {
    const cudaError_t copied = cudaMemcpyAsync(op.recv, op.send, op.count * size_of(op.type),
                                               cudaMemcpyDeviceToDevice, stream);
    if (copied != cudaSuccess)
      return make_error(StatusCode::cuda, static_cast<int>(copied), "cudaMemcpyAsync failed: %s",
                        cudaGetErrorString(copied));
  }
  void* accumulator = op.recv;
  // A kernel that takes 32 bits reads the lower half: the buffer is far smaller than 2^31 elements.
  unsigned long long count = op.count;
  void* arguments[] = {&accumulator, &peers, &count};
  constexpr unsigned kThreads = 256;
  const auto blocks = static_cast<unsigned>((op.count + kThreads - 1) / kThreads);
  const CUresult result =
      launch_kernel()(kernel, blocks, 1, 1, kThreads, 1, 1, 0, stream, arguments, nullptr);
  if (result == CUDA_SUCCESS) return {};
  return make_error(StatusCode::cuda, static_cast<int>(result),
                    "the engine's add kernel could not be launched on %zu elements (CUresult %d)",
                    op.count, static_cast<int>(result));
}

}  // namespace comm::detail::nccl
