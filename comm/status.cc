#include "comm/status.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <new>

namespace comm {
namespace {

// The message lives behind the error in one allocation.
detail::StatusError* allocate(StatusCode code, int native_code, std::size_t length) {
  void* memory = ::operator new(sizeof(detail::StatusError) + length + 1, std::nothrow);
  if (memory == nullptr) return nullptr;
  char* text = static_cast<char*>(memory) + sizeof(detail::StatusError);
  return new (memory) detail::StatusError{code, false, native_code, text};
}

// One constant a code, so that the code survives when memory does not.
template <StatusCode code>
constexpr detail::StatusError kOutOfMemory{code, true, 0,
                                           "(no memory left to say what went wrong)"};

Status without_message(StatusCode code) {
  switch (code) {
    case StatusCode::ok: return {};
    case StatusCode::invalid_argument: return Status(kOutOfMemory<StatusCode::invalid_argument>);
    case StatusCode::unsupported: return Status(kOutOfMemory<StatusCode::unsupported>);
    case StatusCode::unhealthy: return Status(kOutOfMemory<StatusCode::unhealthy>);
    case StatusCode::timeout: return Status(kOutOfMemory<StatusCode::timeout>);
    case StatusCode::peer_lost: return Status(kOutOfMemory<StatusCode::peer_lost>);
    case StatusCode::mismatch: return Status(kOutOfMemory<StatusCode::mismatch>);
    case StatusCode::rendezvous: return Status(kOutOfMemory<StatusCode::rendezvous>);
    case StatusCode::cuda: return Status(kOutOfMemory<StatusCode::cuda>);
    case StatusCode::nccl: return Status(kOutOfMemory<StatusCode::nccl>);
    case StatusCode::internal: break;
  }
  return Status(kOutOfMemory<StatusCode::internal>);
}

}  // namespace

namespace detail {

void release(const StatusError* error) noexcept {
  ::operator delete(const_cast<StatusError*>(error));
}

}  // namespace detail

Status make_error(StatusCode code, int native_code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  va_list again;
  va_copy(again, arguments);
  // Most messages are short enough to be printed once: refusals are to cost less than a microsecond.
  char brief[512] = "";
  const int length = std::vsnprintf(brief, sizeof brief, format, arguments);
  va_end(arguments);
  const std::size_t size = length < 0 ? 0 : static_cast<std::size_t>(length);
  detail::StatusError* error = allocate(code, native_code, size);
  if (error != nullptr) {
    char* text = reinterpret_cast<char*>(error) + sizeof(detail::StatusError);
    if (size < sizeof brief)
      std::memcpy(text, brief, size);
    else
      std::vsnprintf(text, size + 1, format, again);
    text[size] = '\0';
  }
  va_end(again);
  if (error == nullptr) return without_message(code);
  Status status;
  status.error_ = error;
  return status;
}

Status Status::copy() const {
  if (ok()) return {};
  if (error_->is_static) return Status(*error_);
  return make_error(code(), native_code(), "%s", message());
}

}  // namespace comm
