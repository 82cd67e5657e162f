#include "examples/simulated_engine/engine.h"

namespace engine {
namespace {

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  return cudaMalloc(&memory, bytes) == cudaSuccess ? memory : nullptr;
}

}  // namespace

Rank::Rank(int rank, int size, int device, const ncclUniqueId& id, std::size_t width)
    : width_(width) {
  if (cudaSetDevice(device) != cudaSuccess) return;
  if (ncclCommInitRank(&comm_, size, id, rank) != ncclSuccess) return;
  if (cudaStreamCreateWithFlags(&compute_, cudaStreamNonBlocking) != cudaSuccess) return;
  if (cudaStreamCreateWithFlags(&communication_, cudaStreamNonBlocking) != cudaSuccess) return;
  if (cudaEventCreateWithFlags(&computed_, cudaEventDisableTiming) != cudaSuccess) return;
  if (cudaEventCreateWithFlags(&summed_, cudaEventDisableTiming) != cudaSuccess) return;
  input_ = static_cast<float*>(allocate(width * sizeof(float)));
  partial_ = static_cast<float*>(allocate(width * sizeof(float)));
  ok_ = input_ != nullptr && partial_ != nullptr;
}

Rank::~Rank() {
  // A rank that failed may have work that never ends; an abort ends it.
  if (comm_ != nullptr && ok_) ncclCommDestroy(comm_);
  if (comm_ != nullptr && !ok_) ncclCommAbort(comm_);
  cudaFree(input_);
  cudaFree(partial_);
  if (computed_ != nullptr) cudaEventDestroy(computed_);
  if (summed_ != nullptr) cudaEventDestroy(summed_);
  if (compute_ != nullptr) cudaStreamDestroy(compute_);
  if (communication_ != nullptr) cudaStreamDestroy(communication_);
}

std::vector<float> Rank::step(const std::vector<float>& input, Ordering ordering) {
  const std::size_t bytes = width_ * sizeof(float);
  std::vector<float> result(width_);
  cudaError_t error =
      cudaMemcpyAsync(input_, input.data(), bytes, cudaMemcpyHostToDevice, compute_);
  // The layer: here only a copy, where an engine launches its kernels.
  if (error == cudaSuccess) {
    error = cudaMemcpyAsync(partial_, input_, bytes, cudaMemcpyDeviceToDevice, compute_);
  }
  if (ordering == Ordering::event) {
    if (error == cudaSuccess) error = cudaEventRecord(computed_, compute_);
    if (error == cudaSuccess) error = cudaStreamWaitEvent(communication_, computed_, 0);
  }
  ok_ = error == cudaSuccess && ncclAllReduce(partial_, partial_, width_, ncclFloat32, ncclSum,
                                              comm_, communication_) == ncclSuccess;
  if (!ok_) return {};
  error = cudaEventRecord(summed_, communication_);
  if (error == cudaSuccess) error = cudaStreamWaitEvent(compute_, summed_, 0);
  if (error == cudaSuccess) {
    error = cudaMemcpyAsync(result.data(), partial_, bytes, cudaMemcpyDeviceToHost, compute_);
  }
  if (error == cudaSuccess) error = cudaStreamSynchronize(compute_);
  ok_ = error == cudaSuccess;
  return ok_ ? result : std::vector<float>();
}

}  // namespace engine
