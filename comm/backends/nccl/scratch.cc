#include "comm/backends/nccl/scratch.h"

#include "comm/backends/nccl/native.h"

namespace comm::detail::nccl {

cudaError_t capture_of(cudaStream_t stream, Capture* capture) noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
#if CUDART_VERSION >= 13000
  const cudaError_t error =
      cudaStreamGetCaptureInfo(stream, &status, &capture->id, nullptr, nullptr, nullptr, nullptr);
#else
  const cudaError_t error =
      cudaStreamGetCaptureInfo_v2(stream, &status, &capture->id, nullptr, nullptr, nullptr);
#endif
  capture->is_active = status == cudaStreamCaptureStatusActive;
  return status == cudaStreamCaptureStatusInvalidated ? cudaErrorStreamCaptureInvalidated : error;
}

Status Scratch::allocate(std::size_t bytes) {
  if (bytes == 0) return {};
  const cudaError_t event = cudaEventCreateWithFlags(&last_use_, cudaEventDisableTiming);
  if (event != cudaSuccess) {
    last_use_ = nullptr;
    return make_error(StatusCode::cuda, static_cast<int>(event), "an event could not be made: %s",
                      cudaGetErrorString(event));
  }
  void* memory = nullptr;
  const ncclResult_t result = mem_alloc(&memory, bytes);
  if (result != ncclSuccess)
    return make_error(StatusCode::nccl, static_cast<int>(result),
                      "%zu bytes of GPU memory for a receive buffer could not be had (%s): "
                      "free some, or make receive_buffer_bytes and one_shot_bytes smaller",
                      bytes, name_of(result));
  memory_ = static_cast<std::byte*>(memory);
  bytes_ = bytes;
  return {};
}

void Scratch::free() noexcept {
  if (memory_ != nullptr) (void)mem_free(memory_);
  if (last_use_ != nullptr) (void)cudaEventDestroy(last_use_);
  *this = Scratch();
}

cudaError_t Scratch::begin(cudaStream_t stream, const Capture& capture) noexcept {
  const bool same_world = was_used_ && last_capture_ == (capture.is_active ? capture.id : 0);
  if (!same_world || last_stream_ == stream) return cudaSuccess;
  return cudaStreamWaitEvent(stream, last_use_, 0);
}

cudaError_t Scratch::end(cudaStream_t stream, const Capture& capture) noexcept {
  was_used_ = true;
  last_stream_ = stream;
  last_capture_ = capture.is_active ? capture.id : 0;
  return cudaEventRecord(last_use_, stream);
}

bool Scratch::is_idle() const noexcept {
  if (!was_used_ || last_capture_ != 0) return true;
  const cudaError_t found = cudaEventQuery(last_use_);
  if (found != cudaSuccess) (void)cudaGetLastError();
  return found != cudaErrorNotReady;
}

}  // namespace comm::detail::nccl
