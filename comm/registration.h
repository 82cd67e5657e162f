#pragma once

/// `Registration` keeps a buffer registered with the transport for as long as it lives (NCCL: "User
/// Buffer Registration"). Made by `Communicator::registered(span)`. The buffer must outlive it, and
/// the communicator must outlive it and not be moved meanwhile. Survives a reconnect.

#include <utility>

#include "comm/backend.h"

namespace comm {

template <Backend B>
class [[nodiscard]] Registration {
 public:
  constexpr Registration() = default;
  constexpr Registration(B& backend, RegistrationHandle handle)
      : backend_(&backend), handle_(handle) {}
  constexpr Registration(Registration&& other) noexcept
      : backend_(std::exchange(other.backend_, nullptr)),
        handle_(std::exchange(other.handle_, 0)) {}
  constexpr Registration& operator=(Registration&& other) noexcept {
    if (this != &other) {
      release().ignore();
      backend_ = std::exchange(other.backend_, nullptr);
      handle_ = std::exchange(other.handle_, 0);
    }
    return *this;
  }
  constexpr ~Registration() { release().ignore(); }

  /// 0 where the backend has nothing to register.
  constexpr RegistrationHandle handle() const { return handle_; }

  /// Deregisters now, to see the error; ok the second time.
  constexpr Status release() {
    B* backend = std::exchange(backend_, nullptr);
    if (backend == nullptr) return {};
    return backend->deregister_buffer({std::exchange(handle_, 0)});
  }

 private:
  B* backend_ = nullptr;
  RegistrationHandle handle_ = 0;
};

}  // namespace comm
