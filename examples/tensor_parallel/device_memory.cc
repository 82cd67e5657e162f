#include "examples/tensor_parallel/device_memory.h"

#include <cuda_runtime_api.h>

namespace example {
namespace {

comm::Status checked(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  return comm::make_error(comm::StatusCode::cuda, error, "%s: %s", what, cudaGetErrorString(error));
}

}  // namespace

comm::Result<DeviceMemory> DeviceMemory::create(int local_rank) {
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess) {
    return comm::make_error(comm::StatusCode::cuda, error,
                            "there is no GPU to use: %s; build without --config=nccl to run over "
                            "shared memory",
                            cudaGetErrorString(error));
  }
  if (local_rank >= devices) {
    return comm::make_error(comm::StatusCode::invalid_argument, 0,
                            "rank %d of this machine needs a GPU of its own and there are %d; use "
                            "fewer ranks, or build without --config=nccl",
                            local_rank, devices);
  }
  if (comm::Status s = checked(cudaSetDevice(local_rank), "cudaSetDevice"); !s.ok()) return s;
  cudaStream_t stream = nullptr;
  comm::Status s =
      checked(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  if (!s.ok()) return s;
  return DeviceMemory(stream);
}

DeviceMemory::~DeviceMemory() {
  if (buffer_ != nullptr) cudaFree(buffer_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

comm::Status DeviceMemory::upload(const void* from, std::size_t bytes) {
  if (bytes > capacity_) {
    if (buffer_ != nullptr) cudaFree(std::exchange(buffer_, nullptr));
    capacity_ = 0;
    if (comm::Status s = checked(cudaMalloc(&buffer_, bytes), "cudaMalloc"); !s.ok()) return s;
    capacity_ = bytes;
  }
  return checked(cudaMemcpyAsync(buffer_, from, bytes, cudaMemcpyHostToDevice, stream_),
                 "cudaMemcpyAsync");
}

comm::Status DeviceMemory::download(void* to, std::size_t bytes) {
  return checked(cudaMemcpyAsync(to, buffer_, bytes, cudaMemcpyDeviceToHost, stream_),
                 "cudaMemcpyAsync");
}

}  // namespace example
