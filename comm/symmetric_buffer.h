#pragma once

/// `SymmetricBuffer<T>` owns memory that every rank of the communicator has at the same place of its
/// own and that peers can reach, so that collectives on it need no copy. Made by
/// `Communicator::symmetric_buffer<T>(count)`, which all ranks call with the same count; freed by
/// all ranks in the same order. The communicator must outlive it and not be moved meanwhile.
/// (NCCL: `ncclMemAlloc` and symmetric windows. Host: shared memory.)

#include <utility>

#include "comm/backend.h"
#include "comm/device_span.h"

namespace comm {

template <Backend B, Transportable T>
class [[nodiscard]] SymmetricBuffer {
 public:
  constexpr SymmetricBuffer() = default;
  SymmetricBuffer(B& backend, void* data, std::size_t count)
      : backend_(&backend), span_(static_cast<T*>(data), count) {}
  constexpr SymmetricBuffer(SymmetricBuffer&& other) noexcept
      : backend_(std::exchange(other.backend_, nullptr)), span_(std::exchange(other.span_, {})) {}
  constexpr SymmetricBuffer& operator=(SymmetricBuffer&& other) noexcept {
    if (this != &other) {
      release().ignore();
      backend_ = std::exchange(other.backend_, nullptr);
      span_ = std::exchange(other.span_, {});
    }
    return *this;
  }
  constexpr ~SymmetricBuffer() { release().ignore(); }

  constexpr DeviceSpan<T> span() const { return span_; }
  constexpr T* data() const { return span_.data(); }
  constexpr std::size_t size() const { return span_.size(); }

  /// Frees now, to see the error; ok the second time.
  constexpr Status release() {
    B* backend = std::exchange(backend_, nullptr);
    if (backend == nullptr) return {};
    return backend->symmetric_free({std::exchange(span_, {}).data()});
  }

 private:
  B* backend_ = nullptr;
  DeviceSpan<T> span_;
};

}  // namespace comm
