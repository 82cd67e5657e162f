#pragma once

/// A very small engine: one layer whose partial results the ranks add up, on a compute stream, with
/// the sum on a communication stream beside it. It is written against CUDA and NCCL and knows of no
/// simulation; engine_test.cc is how its authors test it on machines without a GPU.
///
/// A rank is used by one thread at a time.

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <vector>

namespace engine {

/// Whether the communication stream waits for the partial results. An engine that forgets it gives
/// right answers on most days.
enum class Ordering { event, forgotten };

class Rank {
 public:
  /// `device` is this rank's GPU. False in `ok()` when CUDA or NCCL refused.
  Rank(int rank, int size, int device, const ncclUniqueId& id, std::size_t width);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  bool ok() const { return ok_; }

  /// Computes this rank's part of `input` and adds up all ranks' parts. Empty on an error.
  std::vector<float> step(const std::vector<float>& input, Ordering ordering);

 private:
  bool ok_ = false;
  std::size_t width_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t compute_ = nullptr;
  cudaStream_t communication_ = nullptr;
  cudaEvent_t computed_ = nullptr;
  cudaEvent_t summed_ = nullptr;
  float* input_ = nullptr;
  float* partial_ = nullptr;
};

}  // namespace engine
