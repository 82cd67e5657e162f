#include <cuda_runtime_api.h>

#include "comm/kernels/sum.h"
#include "comm/kernels/sum_body.h"

namespace {

using comm::DataType;
using comm::Status;
using comm::StatusCode;
using comm::kernels::Contributions;
using comm::kernels::RankSum;

constexpr unsigned kThreads = 256;
constexpr std::size_t kMostBlocks = 2048;  // Fills the largest GPU; the rest is strided over.

__device__ std::size_t worker() {
  return static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ std::size_t workers() {
  return static_cast<std::size_t>(gridDim.x) * blockDim.x;
}

}  // namespace

// The names are what profilers show, and what the host reference is registered under.
extern "C" {

__global__ void comm_bf16_add_inplace(__nv_bfloat16* accumulator, const __nv_bfloat16* addend,
                                      std::size_t count) {
  comm::kernels::add_inplace(accumulator, addend, count, worker(), workers());
}
__global__ void comm_f16_add_inplace(__half* accumulator, const __half* addend, std::size_t count) {
  comm::kernels::add_inplace(accumulator, addend, count, worker(), workers());
}
__global__ void comm_f32_add_inplace(float* accumulator, const float* addend, std::size_t count) {
  comm::kernels::add_inplace(accumulator, addend, count, worker(), workers());
}

__global__ void comm_bf16_add_rank_sum(__nv_bfloat16* out, Contributions<__nv_bfloat16> from,
                                       std::size_t count) {
  comm::kernels::add_rank_sum(out, from, count, worker(), workers());
}
__global__ void comm_f16_add_rank_sum(__half* out, Contributions<__half> from, std::size_t count) {
  comm::kernels::add_rank_sum(out, from, count, worker(), workers());
}
__global__ void comm_f32_add_rank_sum(float* out, Contributions<float> from, std::size_t count) {
  comm::kernels::add_rank_sum(out, from, count, worker(), workers());
}

}  // extern "C"

namespace {

Status launch(const char* name, const void* kernel, void** arguments, std::size_t count,
              std::size_t vector_elements, comm::Stream stream) {
  const std::size_t needed = (count / vector_elements + 1 + kThreads - 1) / kThreads;
  const dim3 blocks(static_cast<unsigned>(needed < kMostBlocks ? needed : kMostBlocks));
  const cudaError_t error =
      cudaLaunchKernel(kernel, blocks, dim3(kThreads), arguments, 0, stream.get());
  if (error == cudaSuccess) return {};
  return comm::make_error(StatusCode::cuda, static_cast<int>(error),
                          "%s: the kernel could not be launched on %zu elements: %s (%s)", name,
                          count, cudaGetErrorString(error), cudaGetErrorName(error));
}

Status has_no_kernel(const char* name, DataType type) {
  return comm::make_error(StatusCode::unsupported, 0,
                          "%s: there is a kernel for bf16, f16 and f32, none for %s", name,
                          to_string(type));
}

template <class T, class Kernel>
Status launch_rank_sum(Kernel* kernel, const RankSum& sum, comm::Stream stream) {
  T* out = static_cast<T*>(sum.out);
  Contributions<T> from{static_cast<const T*>(sum.own), static_cast<const T*>(sum.received),
                        sum.stride, sum.rank, sum.world_size};
  std::size_t count = sum.count;
  void* arguments[] = {&out, &from, &count};
  return launch("add_rank_sum", reinterpret_cast<const void*>(kernel), arguments, count,
                comm::kernels::kVectorElements<T>, stream);
}

}  // namespace

namespace comm::kernels {

Status add_inplace(DataType type, void* accumulator, const void* addend, std::size_t count,
                   Stream stream) {
  if (count == 0) return {};
  void* arguments[] = {&accumulator, &addend, &count};
  const auto launch_of = [&](auto* kernel, std::size_t vector_elements) {
    return launch("add_inplace", reinterpret_cast<const void*>(kernel), arguments, count,
                  vector_elements, stream);
  };
  switch (type) {
    case DataType::bf16: return launch_of(comm_bf16_add_inplace, kVectorElements<__nv_bfloat16>);
    case DataType::f16: return launch_of(comm_f16_add_inplace, kVectorElements<__half>);
    case DataType::f32: return launch_of(comm_f32_add_inplace, kVectorElements<float>);
    default: return has_no_kernel("add_inplace", type);
  }
}

Status add_rank_sum(DataType type, const RankSum& sum, Stream stream) {
  if (sum.count == 0) return {};
  switch (type) {
    case DataType::bf16: return launch_rank_sum<__nv_bfloat16>(comm_bf16_add_rank_sum, sum, stream);
    case DataType::f16: return launch_rank_sum<__half>(comm_f16_add_rank_sum, sum, stream);
    case DataType::f32: return launch_rank_sum<float>(comm_f32_add_rank_sum, sum, stream);
    default: return has_no_kernel("add_rank_sum", type);
  }
}

}  // namespace comm::kernels
