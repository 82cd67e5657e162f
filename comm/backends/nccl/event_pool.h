#pragma once

/// `EventPool` hands out events that nothing in flight uses: an event goes back when its operation
/// no longer needs it, and out again, oldest first, once what it was recorded after is done. Grows
/// when all are busy; never waits. Events of a capture belong to its graph and are not used again.
/// Thread-safe.

#include <cuda_runtime_api.h>

#include <deque>
#include <mutex>
#include <utility>

#include "comm/result.h"

namespace comm::detail::nccl {

/// Leaves captures of this thread and of others undisturbed by queries made while it lives.
class RelaxedCapture {
 public:
  RelaxedCapture() noexcept { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// Makes a device current for as long as it lives.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device) noexcept {
    if (cudaGetDevice(&before_) != cudaSuccess || before_ == device) before_ = -1;
    if (before_ != -1) (void)cudaSetDevice(device);
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;
  ~DeviceGuard() {
    if (before_ != -1) (void)cudaSetDevice(before_);
  }

 private:
  int before_ = -1;
};

class EventPool {
 public:
  EventPool() = default;
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// With `captured` an event for a stream that is being captured. The device must be current.
  cudaError_t take(bool captured, cudaEvent_t* event) noexcept;
  void give_back(bool captured, cudaEvent_t event) noexcept;

  /// Destroys what is in the pool. What comes back later is destroyed on the spot.
  void close(bool driver_is_gone) noexcept;

 private:
  std::mutex mutex_;
  std::deque<cudaEvent_t> idle_;
  bool closed_ = false;
  bool driver_is_gone_ = false;
};

/// An event of the pool for the length of a scope.
class PooledEvent {
 public:
  PooledEvent() = default;
  PooledEvent(EventPool& pool, bool captured) noexcept : pool_(&pool), captured_(captured) {
    error_ = pool.take(captured, &event_);
  }
  PooledEvent(PooledEvent&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)),
        event_(std::exchange(other.event_, nullptr)),
        captured_(other.captured_),
        error_(other.error_) {}
  PooledEvent& operator=(PooledEvent&& other) noexcept {
    if (this == &other) return *this;
    release();
    pool_ = std::exchange(other.pool_, nullptr);
    event_ = std::exchange(other.event_, nullptr);
    captured_ = other.captured_;
    error_ = other.error_;
    return *this;
  }
  ~PooledEvent() { release(); }

  cudaEvent_t get() const { return event_; }
  cudaError_t error() const { return error_; }

  /// Leaves it to a ticket, which gives it back.
  cudaEvent_t hand_over() noexcept { return std::exchange(event_, nullptr); }

 private:
  void release() noexcept {
    if (event_ != nullptr) pool_->give_back(captured_, std::exchange(event_, nullptr));
  }

  EventPool* pool_ = nullptr;
  cudaEvent_t event_ = nullptr;
  bool captured_ = false;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace comm::detail::nccl
