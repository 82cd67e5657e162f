#pragma once

/// `Memory` of `measure.h` for backends on GPUs: memory of the device that the communicator has made
/// current, or what peers can reach.

#include <cuda_runtime_api.h>

#include <type_traits>
#include <utility>
#include <vector>

#include "comm/device_span.h"
#include "comm/result.h"

namespace comm::perf {

struct DeviceMemory {
  /// Each sample waits for the GPU once, which takes some microseconds itself.
  static constexpr double kShortestSample = 500;  // us

  template <class T, class Symmetric>
  class Buffer {
   public:
    explicit Buffer(Symmetric symmetric) : symmetric_(std::move(symmetric)) {
      span_ = symmetric_.span();
    }
    Buffer(T* memory, std::size_t count) : memory_(memory), span_(memory, count) {}
    Buffer(Buffer&& other) noexcept
        : memory_(std::exchange(other.memory_, nullptr)),
          symmetric_(std::move(other.symmetric_)),
          span_(std::exchange(other.span_, {})) {}
    Buffer& operator=(Buffer&&) = delete;
    ~Buffer() {
      if (memory_ != nullptr) cudaFree(memory_);
    }

    DeviceSpan<T> span() const { return span_; }

   private:
    T* memory_ = nullptr;
    Symmetric symmetric_;
    DeviceSpan<T> span_;
  };

  template <class T>
  static Status upload(const std::vector<T>& from, DeviceSpan<T> to) {
    return copy(to.data(), from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice);
  }
  template <class T>
  static Status download(DeviceSpan<T> from, std::vector<T>& to) {
    return copy(to.data(), from.data(), to.size() * sizeof(T), cudaMemcpyDeviceToHost);
  }

  template <class T>
  static Status zero(DeviceSpan<T> span) {
    Status set = checked(cudaMemset(span.data(), 0, span.size() * sizeof(T)), "cudaMemset");
    if (!set.ok()) return set;
    return checked(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  }

  template <class T, class Comm>
  static auto make(Comm& communicator, std::size_t count, bool symmetric) -> Result<
      Buffer<T, std::remove_cvref_t<decltype(*communicator.template symmetric_buffer<T>(1))>>> {
    using Symmetric = std::remove_cvref_t<decltype(*communicator.template symmetric_buffer<T>(1))>;
    using Made = Buffer<T, Symmetric>;
    const auto zeroed = [&](Made made) -> Result<Made> {
      Status filled = upload(std::vector<T>(count), made.span());
      if (!filled.ok()) return filled;
      return made;
    };
    if (symmetric) {
      auto memory = communicator.template symmetric_buffer<T>(count);
      if (!memory.ok()) return std::move(memory).status();
      return zeroed(Made(std::move(*memory)));
    }
    void* memory = nullptr;
    if (Status s = checked(cudaMalloc(&memory, count * sizeof(T)), "cudaMalloc"); !s.ok()) return s;
    return zeroed(Made(static_cast<T*>(memory), count));
  }

 private:
  // The communicator's stream does not wait for the default stream, so the copy has to have ended.
  static Status copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    Status copied = checked(cudaMemcpy(to, from, bytes, kind), "cudaMemcpy");
    if (!copied.ok()) return copied;
    return checked(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  }

  static Status checked(cudaError_t error, const char* what) {
    if (error == cudaSuccess) return {};
    return make_error(StatusCode::cuda, error, "comm_perf: %s: %s", what,
                      cudaGetErrorString(error));
  }
};

}  // namespace comm::perf
