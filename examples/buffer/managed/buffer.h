#pragma once

/// `Buffer<T>`: a few numbers that the program writes and the backend reads. This one is for
/// --config=nccl: managed memory, which both the CPU and the GPU reach. The program ends where there
/// is none.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "comm/device_span.h"

namespace example {

template <class T>
class Buffer {
 public:
  explicit Buffer(std::size_t size) : size_(size) {
    void* memory = nullptr;
    const cudaError_t error = cudaMallocManaged(&memory, size * sizeof(T), cudaMemAttachGlobal);
    if (error != cudaSuccess) {
      std::fprintf(stderr, "cudaMallocManaged: %s\n", cudaGetErrorString(error));
      std::exit(1);
    }
    values_ = static_cast<T*>(memory);
    for (std::size_t i = 0; i < size; ++i) values_[i] = T();
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { cudaFree(values_); }

  T& operator[](std::size_t i) { return values_[i]; }
  comm::DeviceSpan<T> span() { return {values_, size_}; }

 private:
  T* values_ = nullptr;
  std::size_t size_;
};

}  // namespace example
