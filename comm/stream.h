#pragma once

/// `Stream` names the CUDA stream an operation is ordered on. It is made implicitly from a
/// `cudaStream_t` or `CUstream`; a default-constructed one means the communicator's own stream. It
/// owns nothing. A literal 0 or `nullptr` is refused, since it does not say whether the legacy
/// default stream or the communicator's own is meant: write `Stream(cudaStream_t{})` or `Stream()`.
///
/// Backends in host memory run each operation to its end before it returns, so any stream is right.

#include <cstddef>

#include "comm/language.h"

struct CUstream_st;

namespace comm {

class Stream {
 public:
  constexpr Stream() = default;
  constexpr Stream(CUstream_st* handle) : handle_(handle), is_given_(true) {}  // NOLINT
  Stream(int) = delete;
  Stream(std::nullptr_t) = delete;

  /// Whether the caller named a stream; otherwise the communicator's own is meant.
  constexpr bool is_given() const { return is_given_; }

  /// The `cudaStream_t`; meaningful only where `is_given()`.
  constexpr CUstream_st* get() const { return handle_; }

  constexpr bool operator==(const Stream&) const = default;

 private:
  CUstream_st* handle_ = nullptr;
  bool is_given_ = false;
};

}  // namespace comm
