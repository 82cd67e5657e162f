#pragma once

/// Fields in and out of byte strings: fixed-width little-endian numbers, byte arrays and short
/// strings. A reader that was asked for more than is there turns bad and stays bad; it never adds
/// a length to an offset, so no length can wrap. Not thread-safe.
///
///     ByteWriter w;                       ByteReader r(bytes);
///     w.number<std::uint32_t>(rank);      r.number(rank);
///     w.text(job_id);                     if (!r.text(job_id, 255) || !r.at_end()) return false;

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace comm::detail {

using ByteVector = std::vector<std::byte>;
using ByteSpan = std::span<const std::byte>;

class ByteWriter {
 public:
  template <std::unsigned_integral T>
  void number(std::type_identity_t<T> value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
    }
  }
  void bytes(ByteSpan span) { bytes_.insert(bytes_.end(), span.begin(), span.end()); }

  /// A length of 16 bits and the characters; what does not fit into `most` is cut off.
  void text(std::string_view text, std::size_t most = 0xffff) {
    text = text.substr(0, most);
    number<std::uint16_t>(static_cast<std::uint16_t>(text.size()));
    bytes(std::as_bytes(std::span(text)));
  }

  ByteSpan view() const { return bytes_; }
  ByteVector take() && { return std::move(bytes_); }

 private:
  ByteVector bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(ByteSpan bytes) : rest_(bytes) {}

  template <std::unsigned_integral T>
  bool number(T& value) {
    ByteSpan raw;
    if (!take(sizeof(T), raw)) return false;
    value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      value = static_cast<T>(value | static_cast<T>(std::to_integer<T>(raw[i]) << (8 * i)));
    }
    return true;
  }

  template <std::size_t N>
  bool array(std::array<std::byte, N>& out) {
    ByteSpan raw;
    if (!take(N, raw)) return false;
    std::memcpy(out.data(), raw.data(), N);
    return true;
  }

  bool text(std::string& out, std::size_t most) {
    std::uint16_t length = 0;
    ByteSpan raw;
    if (!number(length) || length > most || !take(length, raw)) return ok_ = false;
    out.assign(reinterpret_cast<const char*>(raw.data()), raw.size());
    return true;
  }

  bool skip_zeros(std::size_t count) {
    ByteSpan raw;
    if (!take(count, raw)) return false;
    for (const std::byte b : raw) ok_ = ok_ && b == std::byte{0};
    return ok_;
  }

  bool take(std::size_t count, ByteSpan& out) {
    if (!ok_ || count > rest_.size()) return ok_ = false;
    out = rest_.first(count);
    rest_ = rest_.subspan(count);
    return true;
  }

  ByteSpan rest() const { return rest_; }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && rest_.empty(); }

 private:
  ByteSpan rest_;
  bool ok_ = true;
};

}  // namespace comm::detail
