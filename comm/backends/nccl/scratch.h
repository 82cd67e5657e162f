#pragma once

/// `Scratch` is device memory that operations on different streams take turns with: whoever uses it
/// on another stream than the last user waits for that one, on the device. There is one for ordinary
/// operations and one for those that a graph captures: events cannot cross from one world to the
/// other, so graphs that use one communicator are not to run beside each other, which NCCL asks for
/// anyway. Used under the device lock.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "comm/status.h"

namespace comm::detail::nccl {

/// How a stream stands to captures.
struct Capture {
  bool is_active = false;
  unsigned long long id = 0;
};

/// An error where the stream cannot be used at all, such as the legacy stream beside a capture.
cudaError_t capture_of(cudaStream_t stream, Capture* capture) noexcept;

class Scratch {
 public:
  /// On the current device. Zero bytes: no memory.
  Status allocate(std::size_t bytes);
  void free() noexcept;

  std::byte* memory() const { return memory_; }
  std::size_t bytes() const { return bytes_; }

  /// Orders what comes next on `stream` behind the last use.
  cudaError_t begin(cudaStream_t stream, const Capture& capture) noexcept;
  /// The use ends with what is now on `stream`.
  cudaError_t end(cudaStream_t stream, const Capture& capture) noexcept;
  /// Whether the last use is over, as far as events can say: not inside a graph.
  bool is_idle() const noexcept;

 private:
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
  cudaEvent_t last_use_ = nullptr;
  cudaStream_t last_stream_ = nullptr;
  unsigned long long last_capture_ = 0;
  bool was_used_ = false;
};

}  // namespace comm::detail::nccl
