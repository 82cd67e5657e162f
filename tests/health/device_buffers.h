#pragma once

/// What a rank of the fault product calls operations on: two blocks of device memory with a stream,
/// and a graph that a call may be captured into.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "comm/status.h"

namespace comm::test {

/// `count` floats for each rank in each block.
class DeviceBuffers {
 public:
  DeviceBuffers(int world, std::size_t count) {
    for (float*& block : blocks_)
      (void)cudaMalloc(reinterpret_cast<void**>(&block),
                       static_cast<std::size_t>(world) * count * sizeof(float));
    (void)cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  }
  DeviceBuffers(const DeviceBuffers&) = delete;
  DeviceBuffers& operator=(const DeviceBuffers&) = delete;
  ~DeviceBuffers() {
    (void)cudaStreamDestroy(stream);
    for (float* block : blocks_) (void)cudaFree(block);
  }
  float* send() const { return blocks_[0]; }
  float* recv() const { return blocks_[1]; }
  void fill(const std::vector<float>& values) const {
    for (float* block : blocks_)
      (void)cudaMemcpy(block, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice);
  }
  bool holds(const std::vector<float>& values) const {
    std::vector<float> found(values.size());
    (void)cudaMemcpy(found.data(), blocks_[1], values.size() * sizeof(float),
                     cudaMemcpyDeviceToHost);
    return found == values;
  }

  cudaStream_t stream = nullptr;

 private:
  float* blocks_[2] = {};
};

/// Puts `call` into a graph, launches it, and destroys it when the rank is done with it.
class Captured {
 public:
  explicit Captured(cudaStream_t stream) : stream_(stream) {}
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  ~Captured() {
    if (exec_ != nullptr) (void)cudaGraphExecDestroy(exec_);
    if (graph_ != nullptr) (void)cudaGraphDestroy(graph_);
  }
  template <class Call>
  Status launch(Call call) {
    (void)cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
    Status s = call();
    const cudaError_t ended = cudaStreamEndCapture(stream_, &graph_);
    if (!s.ok()) return s;
    if (ended != cudaSuccess || cudaGraphInstantiate(&exec_, graph_, 0) != cudaSuccess ||
        cudaGraphLaunch(exec_, stream_) != cudaSuccess)
      return make_error(StatusCode::cuda, static_cast<int>(ended), "the graph cannot be launched");
    return s;
  }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

}  // namespace comm::test
