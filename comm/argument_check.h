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
    const bool sound = (span.data() != nullptr || span.size() == 0) && address % kAlignment == 0;
    if (!sound) [[unlikely]]
      complain_about_buffer(name, span.data(), span.size(), sizeof(T));
    return fits<T>(name, span.data(), span.size());
  }

  /// Memory can hold that many.
  template <class T>
  ArgumentCheck& fits(const char* name, const void* data, std::size_t count) {
    if (count > kMostBytes / sizeof(T)) [[unlikely]]
      complain_about_buffer(name, data, count, sizeof(T));
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

  ArgumentCheck& divisible(const char* name, std::size_t size, std::size_t blocks) {
    if (size % blocks != 0) [[unlikely]]
      complain_about_blocks(name, size, "a block", size / blocks);
    return *this;
  }

  ArgumentCheck& same_size(const char* a, std::size_t a_size, const char* b, std::size_t b_size) {
    if (a_size != b_size) [[unlikely]]
      complain_about_sizes(a, a_size, b, b_size);
    return *this;
  }

  /// The two do not share a byte, unless `a` begins exactly at `in_place`.
  template <class S, class T>
  ArgumentCheck& apart(const char* a_name, DeviceSpan<S> a, const char* b_name, DeviceSpan<T> b,
                       std::uintptr_t in_place = 0) {
    const auto a_begin = reinterpret_cast<std::uintptr_t>(a.data());
    const auto b_begin = reinterpret_cast<std::uintptr_t>(b.data());
    if (a_begin == in_place && in_place != 0) return *this;
    const bool apart = a.empty() || b.empty() || a_begin + a.size_bytes() <= b_begin ||
                       b_begin + b.size_bytes() <= a_begin;
    if (!apart) [[unlikely]]
      complain_about_overlap({a_name, a.data(), a.size_bytes()}, {b_name, b.data(), b.size_bytes()},
                             in_place);
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

  /// Other ranks of this communicator, one at least.
  ArgumentCheck& excluded(const int* ranks, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      peer("an excluded rank", ranks[i]);
      that(ranks[i] != rank_, "the calling rank cannot exclude itself");
    }
    return that(count > 0, "no rank is excluded");
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

  struct Extent {
    const char* name;
    const void* data;
    std::size_t bytes;
  };

  [[gnu::cold]] void complain(const char* complaint);
  [[gnu::cold]] void complain_about_buffer(const char* name, const void* data, std::size_t count,
                                           std::size_t element_size);
  [[gnu::cold]] void complain_about_rank(const char* name, int value);
  [[gnu::cold]] void complain_about_blocks(const char* larger, std::size_t larger_size,
                                           const char* block, std::size_t size);
  [[gnu::cold]] void complain_about_sizes(const char* a, std::size_t a_size, const char* b,
                                          std::size_t b_size);
  [[gnu::cold]] void complain_about_counts(const char* name, std::size_t size,
                                           const std::size_t* counts);
  [[gnu::cold]] void complain_about_overlap(Extent a, Extent b, std::uintptr_t in_place);

  Operation operation_;
  int rank_;
  int world_size_;
  Status status_;
};

/// `recv` is as large as `send`, and either the same memory or other memory.
template <class S, class T>
void same_shape(ArgumentCheck& check, DeviceSpan<S> send, DeviceSpan<T> recv) {
  check.buffer("send", send).buffer("recv", recv);
  check.same_size("send", send.size(), "recv", recv.size());
  check.apart("send", send, "recv", recv, reinterpret_cast<std::uintptr_t>(recv.data()));
}

/// `whole` has a block for each rank, and `block` is either this rank's or other memory.
template <class S, class T>
void block_of(ArgumentCheck& check, const char* block_name, DeviceSpan<S> block,
              const char* whole_name, DeviceSpan<T> whole) {
  check.buffer(block_name, block).buffer(whole_name, whole);
  check.one_block_a_rank(whole_name, whole.size(), block_name, block.size());
  // In integers, since what was complained of above may lie outside of any array.
  const std::uintptr_t own = static_cast<std::size_t>(check.rank()) * block.size_bytes();
  const auto begin = reinterpret_cast<std::uintptr_t>(whole.data());
  check.apart(block_name, block, whole_name, whole, begin == 0 ? 0 : begin + own);
}

}  // namespace comm::detail
