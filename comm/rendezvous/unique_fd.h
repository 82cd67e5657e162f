#pragma once

/// Owns a file descriptor and closes it. Move-only, one `int` wide.

#include <utility>

#include "comm/language.h"

namespace comm::detail {

class UniqueFd {
 public:
  constexpr UniqueFd() noexcept = default;
  constexpr explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  constexpr UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  constexpr int get() const noexcept { return fd_; }
  constexpr explicit operator bool() const noexcept { return fd_ >= 0; }
  constexpr int release() noexcept { return std::exchange(fd_, -1); }

  /// Closes what is held and keeps `fd` instead; `errno` is left as it was.
  void reset(int fd = -1) noexcept;

 private:
  int fd_ = -1;
};

}  // namespace comm::detail
