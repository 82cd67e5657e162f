#pragma once

/// `Status` is the outcome of an operation: ok, or a code and a message that names the operation,
/// the rank, the world size and what to do. It is not an exception and never becomes one. It is one
/// pointer wide, move-only, and `constexpr` when ok, so that an error branch on a backend that
/// cannot fail disappears from the object code.
///
///     if (comm::Status s = communicator.barrier(); !s.ok()) {
///       std::fprintf(stderr, "%s\n", s.message());
///     }
///
/// Thread safety: a `const Status` may be read from any thread.

#include <cstdint>

#include "comm/language.h"

namespace comm {

enum class StatusCode : std::uint8_t {
  ok,
  invalid_argument,  ///< The caller passed something the operation cannot take.
  unsupported,       ///< This backend, build or hardware does not have the operation.
  unhealthy,         ///< The communicator failed before; the message holds the first cause.
  timeout,           ///< A deadline passed.
  peer_lost,         ///< A rank died, left, or cannot be reached.
  mismatch,          ///< Ranks disagree on what is to be done.
  rendezvous,        ///< Ranks could not find or did not admit each other.
  cuda,              ///< A CUDA call failed; `native_code()` is its `cudaError_t` or `CUresult`.
  nccl,              ///< An NCCL call failed; `native_code()` is its `ncclResult_t`.
  internal,          ///< comm or the operating system failed in a way comm cannot name better.
};

/// The code as it is spelled above, for messages.
constexpr const char* to_string(StatusCode code) {
  switch (code) {
    case StatusCode::ok: return "ok";
    case StatusCode::invalid_argument: return "invalid_argument";
    case StatusCode::unsupported: return "unsupported";
    case StatusCode::unhealthy: return "unhealthy";
    case StatusCode::timeout: return "timeout";
    case StatusCode::peer_lost: return "peer_lost";
    case StatusCode::mismatch: return "mismatch";
    case StatusCode::rendezvous: return "rendezvous";
    case StatusCode::cuda: return "cuda";
    case StatusCode::nccl: return "nccl";
    case StatusCode::internal: return "internal";
  }
  return "unknown";
}

namespace detail {

/// What an error carries. `is_static` tells a constant, which an operation that can only be refused
/// returns without allocating, from one made at run time.
struct StatusError {
  StatusCode code;
  bool is_static;
  int native_code;
  const char* message;
};

void release(const StatusError* error) noexcept;

}  // namespace detail

class [[nodiscard]] Status {
 public:
  constexpr Status() noexcept = default;

  /// Takes an error with static storage duration.
  constexpr explicit Status(const detail::StatusError& constant) noexcept : error_(&constant) {}

  constexpr Status(Status&& other) noexcept : error_(other.error_) { other.error_ = nullptr; }
  // Returns nothing: nvcc would warn of each `status = call();`, that it discards what is [[nodiscard]].
  // NOLINTNEXTLINE(misc-unconventional-assign-operator)
  constexpr void operator=(Status&& other) noexcept {
    if (this == &other) return;
    reset();
    error_ = other.error_;
    other.error_ = nullptr;
  }
  Status(const Status&) = delete;
  Status& operator=(const Status&) = delete;
  // Inlined also where an exception of the caller's unwinds, which compilers think too cold for it:
  // otherwise every ok Status would have to lie in memory for that.
  [[gnu::always_inline]] constexpr ~Status() { reset(); }

  constexpr bool ok() const noexcept { return error_ == nullptr; }
  constexpr StatusCode code() const noexcept { return ok() ? StatusCode::ok : error_->code; }

  /// The `cudaError_t`, `CUresult`, `ncclResult_t` or `errno` behind the error; 0 where there is
  /// none.
  constexpr int native_code() const noexcept { return ok() ? 0 : error_->native_code; }

  /// One line, without the code; "ok" when ok. Valid as long as this object.
  constexpr const char* message() const noexcept { return ok() ? "ok" : error_->message; }

  /// An independent status that says the same; for an error that several callers are told.
  Status copy() const;

  /// Says in the code that the outcome does not matter here.
  constexpr void ignore() const noexcept {}

 private:
  friend Status make_error(StatusCode code, int native_code, const char* format, ...);

  [[gnu::always_inline]] constexpr void reset() noexcept {
    if (error_ != nullptr && !error_->is_static) detail::release(error_);
    error_ = nullptr;
  }

  const detail::StatusError* error_ = nullptr;
};

/// An error of the given code whose message is printed as by `printf`. Never throws: where memory
/// has run out the message is a constant that says so.
[[gnu::cold, gnu::format(printf, 3, 4)]] Status make_error(StatusCode code, int native_code,
                                                           const char* format, ...);

}  // namespace comm
