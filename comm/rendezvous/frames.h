#pragma once

/// Frames: how messages are cut out of a byte stream. Each side first sends a preface of eight
/// bytes, by which anything that speaks another protocol is told at its first wrong byte; then
/// frames of an eight-byte header and a body whose greatest length depends on its type. The body's
/// memory grows with the bytes that arrived, never with the length that was claimed.
///
///     FrameReader reader(Side::worker);
///     reader.append(received);
///     while (reader.next(frame) == FrameReader::Outcome::frame) handle(frame);
///
/// docs/rendezvous.md gives the layout byte by byte. Not thread-safe.

#include <array>
#include <cstddef>
#include <cstdint>

#include "comm/rendezvous/bytes.h"

namespace comm::detail {

inline constexpr std::array<char, 8> kPreface = {'c', 'o', 'm', 'm', '/', 'r', 'd', 'v'};
inline constexpr std::uint16_t kProtocolVersion = 1;
inline constexpr std::size_t kFrameHeaderSize = 8;

/// The most that one rank contributes to an exchange, and all of them together.
inline constexpr std::size_t kMaxContribution = 64 * 1024;
inline constexpr std::size_t kMaxExchange = 64 * 1024 * 1024;

/// What the most ranks are that one root serves.
inline constexpr std::uint32_t kMaxWorldSize = 65536;

enum class FrameType : std::uint8_t {
  greeting = 1,
  hello = 2,
  verdict = 3,
  progress = 4,
  start = 5,
  outcome = 6,
  failed = 7,
  departed = 8,
  contribution = 9,
  notify = 10,
  leave = 11,
  rejoin = 12,  ///< From rank 0 to the service in its own process only.
  call = 13,    ///< From a rank to the service, and from there to all ranks.
};

/// Which side sends the frames that a reader reads.
enum class Side : std::uint8_t { root, worker };

/// The longest legal body of a frame that `sender` sends; false where it sends no such frame.
bool body_limit(Side sender, FrameType type, std::size_t& limit);

struct Frame {
  FrameType type{};
  ByteSpan body;  ///< Valid until the reader is used again.
};

class FrameReader {
 public:
  enum class Outcome { frame, incomplete, malformed };

  explicit FrameReader(Side sender, bool expect_preface = true)
      : sender_(sender), preface_seen_(!expect_preface) {}

  void append(ByteSpan received);
  Outcome next(Frame& frame);

  /// Why the last `next` said malformed; a constant.
  const char* complaint() const { return complaint_; }
  std::size_t buffered() const { return buffer_.size() - consumed_; }

 private:
  Outcome malformed(const char* complaint) {
    complaint_ = complaint;
    return Outcome::malformed;
  }

  Side sender_;
  bool preface_seen_;
  std::size_t consumed_ = 0;
  ByteVector buffer_;
  const char* complaint_ = "";
};

/// Header and body in one piece. The body must not exceed its limit.
ByteVector encode_frame(FrameType type, ByteSpan body);

/// The preface, as bytes.
ByteSpan preface();

}  // namespace comm::detail
