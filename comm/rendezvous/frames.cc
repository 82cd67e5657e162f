#include "comm/rendezvous/frames.h"

#include <algorithm>

namespace comm::detail {

bool body_limit(Side sender, FrameType type, std::size_t& limit) {
  const bool from_root = sender == Side::root;
  switch (type) {
    case FrameType::greeting: limit = 64; return from_root;
    case FrameType::verdict: limit = 2048; return from_root;
    case FrameType::progress: limit = 1024; return from_root;
    case FrameType::start: limit = 64; return from_root;
    // Every contribution has a length of four bytes in front.
    case FrameType::outcome: limit = kMaxExchange + 4 * kMaxWorldSize + 64; return from_root;
    case FrameType::failed: limit = 2048; return from_root;
    case FrameType::departed: limit = 12; return from_root;
    case FrameType::hello: limit = 2048; return !from_root;
    case FrameType::contribution: limit = kMaxContribution + 32; return !from_root;
    case FrameType::notify: limit = 1024; return !from_root;
    case FrameType::leave: limit = 8; return !from_root;
    case FrameType::rejoin: limit = 16; return !from_root;
    case FrameType::call: limit = 8; return true;
  }
  return false;
}

void FrameReader::append(ByteSpan received) {
  if (consumed_ == buffer_.size()) {
    buffer_.clear();
    consumed_ = 0;
  } else if (consumed_ > buffer_.size() / 2) {
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(consumed_));
    consumed_ = 0;
  }
  buffer_.insert(buffer_.end(), received.begin(), received.end());
}

FrameReader::Outcome FrameReader::next(Frame& frame) {
  ByteSpan rest = ByteSpan(buffer_).subspan(consumed_);
  if (!preface_seen_) {
    const std::size_t n = std::min(rest.size(), kPreface.size());
    if (!std::equal(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(n),
                    preface().begin())) {
      return malformed("does not speak comm's protocol");
    }
    if (n < kPreface.size()) return Outcome::incomplete;
    preface_seen_ = true;
    consumed_ += n;
    rest = rest.subspan(n);
  }
  if (rest.size() < kFrameHeaderSize) return Outcome::incomplete;
  ByteReader header(rest.first(kFrameHeaderSize));
  std::uint32_t length = 0;
  std::uint8_t type = 0;
  std::size_t limit = 0;
  header.number(length);
  header.number(type);
  if (!header.skip_zeros(3)) return malformed("sent a frame with reserved bits set");
  if (!body_limit(sender_, static_cast<FrameType>(type), limit)) {
    return malformed("sent a frame of a type that it may not send");
  }
  if (length > limit) return malformed("sent a frame longer than its type allows");
  if (rest.size() - kFrameHeaderSize < length) return Outcome::incomplete;
  frame = {static_cast<FrameType>(type), rest.subspan(kFrameHeaderSize, length)};
  consumed_ += kFrameHeaderSize + length;
  return Outcome::frame;
}

ByteVector encode_frame(FrameType type, ByteSpan body) {
  ByteWriter w;
  w.number<std::uint32_t>(static_cast<std::uint32_t>(body.size()));
  w.number<std::uint8_t>(static_cast<std::uint8_t>(type));
  w.number<std::uint8_t>(0);
  w.number<std::uint16_t>(0);
  w.bytes(body);
  return std::move(w).take();
}

ByteSpan preface() {
  return std::as_bytes(std::span(kPreface));
}

}  // namespace comm::detail
