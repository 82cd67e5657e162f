#pragma once

/// `ArgumentCheck` looks at the arguments of one call before a backend sees them. The sound case is
/// a few inlined compares; what is wrong is found out again, and put into words, out of line.
/// The first complaint wins.

#include <cstddef>
#include <cstdint>

#include "comm/device_span.h"
#include "comm/operations.h"
#include "comm/status.h"

namespace comm::detail {

class ArgumentCheck {
 public:
  constexpr ArgumentCheck(Operation operation, int rank, int world_size)
      : operation_(operation), rank_(rank), world_size_(world_size) {}

  /// Memory that exists and is aligned to its element type.
  template <class T>
  ArgumentCheck& buffer(const char* name, DeviceSpan<T> span) {
    constexpr std::size_t kAlignment = is_element<std::remove_cv_t<T>> ? sizeof(T) : 1;
    const auto address = reinterpret_cast<std::uintptr_t>(span.data());
    const bool sound = (span.data() != nullptr || span.size() == 0) && address % kAlignment == 0 &&
                       span.size() <= kMostBytes / sizeof(T);
    if (!sound) [[unlikely]]
      complain_about_buffer(name, span.data(), span.size(), sizeof(T), kAlignment);
    return *this;
  }

  ArgumentCheck& root(int root) {
    if (root < 0 || root >= world_size_) [[unlikely]]
      complain_about_rank("root", root);
    return *this;
  }

  ArgumentCheck& peer(const char* name, int peer) {
    if (peer < 0 || peer >= world_size_) [[unlikely]]
      complain_about_rank(name, peer);
    return *this;
  }

  /// `larger` holds one block of `size` for each rank.
  ArgumentCheck& one_block_a_rank(const char* larger, std::size_t larger_size, const char* block,
                                  std::size_t size) {
    std::size_t needed = 0;
    if (__builtin_mul_overflow(size, static_cast<std::size_t>(world_size_), &needed) ||
        needed != larger_size) [[unlikely]]
      complain_about_blocks(larger, larger_size, block, size);
    return *this;
  }

  ArgumentCheck& same_size(const char* a, std::size_t a_size, const char* b, std::size_t b_size) {
    if (a_size != b_size) [[unlikely]]
      complain_about_sizes(a, a_size, b, b_size);
    return *this;
  }

  /// The two do not share a byte, unless `send` begins exactly at `in_place`.
  ArgumentCheck& apart(const void* send, std::size_t send_bytes, const void* recv,
                       std::size_t recv_bytes, const void* in_place_send) {
    if (send == in_place_send && in_place_send != nullptr) return *this;
    const auto s = reinterpret_cast<std::uintptr_t>(send);
    const auto r = reinterpret_cast<std::uintptr_t>(recv);
    const bool apart =
        send_bytes == 0 || recv_bytes == 0 || s + send_bytes <= r || r + recv_bytes <= s;
    if (!apart) [[unlikely]]
      complain_about_overlap(send, send_bytes, recv, recv_bytes, in_place_send);
    return *this;
  }

  /// One count for each rank, which add up to `size`.
  ArgumentCheck& counts(const char* name, std::size_t size, const std::size_t* counts) {
    std::size_t sum = 0;
    bool sound = counts != nullptr;
    for (int r = 0; sound && r < world_size_; ++r)
      sound = !__builtin_add_overflow(sum, counts[r], &sum);
    if (!sound || sum != size) [[unlikely]]
      complain_about_counts(name, size, counts);
    return *this;
  }

  /// Any other condition, in words made by the caller.
  ArgumentCheck& that(bool condition, const char* complaint) {
    if (!condition) [[unlikely]]
      complain(complaint);
    return *this;
  }

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  Status take() { return static_cast<Status&&>(status_); }

 private:
  static constexpr std::size_t kMostBytes = PTRDIFF_MAX;

  [[gnu::cold]] void complain(const char* complaint);
  [[gnu::cold]] void complain_about_buffer(const char* name, const void* data, std::size_t count,
                                           std::size_t element_size, std::size_t alignment);
  [[gnu::cold]] void complain_about_rank(const char* name, int value);
  [[gnu::cold]] void complain_about_blocks(const char* larger, std::size_t larger_size,
                                           const char* block, std::size_t size);
  [[gnu::cold]] void complain_about_sizes(const char* a, std::size_t a_size, const char* b,
                                          std::size_t b_size);
  [[gnu::cold]] void complain_about_counts(const char* name, std::size_t size,
                                           const std::size_t* counts);
  [[gnu::cold]] void complain_about_overlap(const void* send, std::size_t send_bytes,
                                            const void* recv, std::size_t recv_bytes,
                                            const void* in_place_send);

  Operation operation_;
  int rank_;
  int world_size_;
  Status status_;
};

}  // namespace comm::detail
