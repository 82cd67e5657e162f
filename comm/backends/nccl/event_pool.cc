#include "comm/backends/nccl/event_pool.h"

namespace comm::detail::nccl {

cudaError_t EventPool::take(bool captured, cudaEvent_t* event) noexcept {
  if (!captured) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!idle_.empty()) {
      const RelaxedCapture undisturbed;
      if (cudaEventQuery(idle_.front()) == cudaSuccess) {
        *event = idle_.front();
        idle_.pop_front();
        return cudaSuccess;
      }
      (void)cudaGetLastError();  // Not ready is no error of the caller's.
    }
  }
  return cudaEventCreateWithFlags(event, cudaEventDisableTiming);
}

void EventPool::give_back(bool captured, cudaEvent_t event) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!captured && !closed_) {
    idle_.push_back(event);
  } else if (!driver_is_gone_) {
    (void)cudaEventDestroy(event);
  }
}

void EventPool::close(bool driver_is_gone) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  driver_is_gone_ = driver_is_gone;
  for (cudaEvent_t event : idle_)
    if (!driver_is_gone) (void)cudaEventDestroy(event);
  idle_.clear();
}

}  // namespace comm::detail::nccl
