#pragma once

/// `SharedFile` is the memory that the ranks of one Host world share: an anonymous file (memfd),
/// which has no name and so leaves nothing behind however its users end, and which does not count
/// against the size of /dev/shm. It is as large as an address can say and empty; `reserve` claims
/// space in it before anybody touches it, so that a lack of memory is an error and not a SIGBUS.
///
/// Thread safety: all members from any thread; `reserve` from any process too.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "comm/backends/host/layout.h"
#include "comm/backends/host/numa.h"
#include "comm/rendezvous/unique_fd.h"
#include "comm/result.h"

namespace comm::detail::host {

/// Owns a mapping of a part of the file.
class Mapping {
 public:
  constexpr Mapping() noexcept = default;
  Mapping(std::byte* base, std::size_t bytes) noexcept : base_(base), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();

  std::byte* base() const noexcept { return base_; }
  std::size_t bytes() const noexcept { return bytes_; }

  /// Leaves the memory in place; the caller now owns it.
  std::byte* release() noexcept {
    bytes_ = 0;
    return std::exchange(base_, nullptr);
  }

 private:
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

class SharedFile {
 public:
  SharedFile() = default;

  /// A new file with its head in place.
  static Result<SharedFile> create();

  /// A file that another rank made; takes the descriptor.
  static Result<SharedFile> adopt(UniqueFd fd);

  int fd() const noexcept { return fd_.get(); }

  /// Claims `bytes` of zeroed memory for what `purpose` says, each of `pieces` on its node; returns
  /// where they lie.
  Result<std::uint64_t> reserve(std::size_t bytes, const char* purpose,
                                std::span<const Piece> pieces = {});

  /// Gives the memory back to the system; the place is not used again.
  void discard(std::uint64_t offset, std::size_t bytes) noexcept;

  /// `may_be_huge`: the kernel is advised to make it of huge pages.
  Result<Mapping> map(std::uint64_t offset, std::size_t bytes, bool may_be_huge = true) const;

 private:
  FileHead& head() const noexcept { return *reinterpret_cast<FileHead*>(head_.base()); }

  UniqueFd fd_;
  Mapping head_;
};

}  // namespace comm::detail::host
