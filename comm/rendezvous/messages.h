#pragma once

/// The messages inside the frames: plain structs, each with `encode` (a whole frame) and a `decode`
/// that accepts exactly what `encode` can make: every field is checked on its own and nothing may
/// follow the last. Free of sockets, so that a fuzzer reaches all of it.

#include <array>
#include <cstdint>
#include <string>

#include "comm/rendezvous/bytes.h"
#include "comm/rendezvous/frames.h"

namespace comm::detail {

using Nonce = std::array<std::byte, 32>;
using Mac = std::array<std::byte, 32>;
using SessionId = std::array<std::byte, 16>;
using InstanceId = std::array<std::byte, 16>;

/// Tells which process somebody is, so that one on this host can be watched by its pid.
struct ProcessId {
  std::uint32_t pid = 0;
  std::uint64_t start_time = 0;     ///< Since boot, as the kernel counts it: tells a reused pid.
  std::uint64_t pid_namespace = 0;  ///< Its inode.
  std::array<std::byte, 16> boot{};

  bool operator==(const ProcessId&) const = default;
};

struct Greeting {
  std::uint16_t protocol = kProtocolVersion;
  bool demands_secret = false;
  Nonce nonce{};

  ByteVector encode() const;
  bool decode(ByteSpan body);
};

struct Hello {
  static constexpr std::size_t kMaxText = 255;

  std::uint16_t protocol = kProtocolVersion;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;
  std::uint64_t epoch = 0;
  std::uint32_t remaining_ms = 0;  ///< How long the sender is still going to wait.
  InstanceId instance{};           ///< Drawn once for each join: tells a retry from a duplicate.
  ProcessId process;
  std::string job_id, host, backend, backend_version, fingerprint;
  Nonce nonce{};
  Mac mac{};  ///< Zero where no secret is set.

  ByteVector encode() const;
  ByteVector encode_without_mac() const;  ///< The body that `mac` covers.
  bool decode(ByteSpan body);
};

/// Why a hello was turned away. The numbers are on the wire.
enum class Reason : std::uint8_t {
  none = 0,  ///< Admitted.
  malformed = 1,
  protocol_version = 2,
  job_id = 3,
  secret = 4,
  rank_range = 5,
  world_size = 6,
  stale_epoch = 7,
  backend = 8,
  backend_version = 9,
  fingerprint = 10,
  duplicate_rank = 11,
};
inline constexpr Reason kLastReason = Reason::duplicate_rank;

struct Verdict {
  Reason reason = Reason::none;
  std::uint64_t epoch = 0;
  ProcessId root;  ///< Rank 0's process.
  std::string text;
  Mac mac{};

  ByteVector encode() const;
  ByteVector encode_without_mac() const;
  bool decode(ByteSpan body);
};

struct Progress {
  std::string text;

  ByteVector encode() const;
  bool decode(ByteSpan body);
};

struct Start {
  std::uint64_t epoch = 0;
  SessionId session{};

  ByteVector encode() const;
  bool decode(ByteSpan body);
};

enum class ExchangeKind : std::uint8_t { barrier = 0, broadcast = 1, all_gather = 2, among = 3 };
const char* to_string(ExchangeKind kind);

struct Contribution {
  std::uint64_t sequence = 0;
  ExchangeKind kind{};
  std::uint32_t root = 0;
  std::uint32_t timeout_ms = 0;
  ByteSpan payload;  ///< Borrowed from the frame.

  ByteVector encode() const;
  bool decode(ByteSpan body);
};

/// How the payload of a contribution of kind `among` begins: an exchange of some of the ranks, which
/// have numbers of their own in it. Its sequence numbers count apart, with the highest bit set.
struct Among {
  static constexpr std::uint64_t kSequenceBit = std::uint64_t{1} << 63;

  std::uint64_t id = 0;      ///< The same on all that take part, and on no others.
  std::uint64_t number = 0;  ///< Of the exchange; each has its own.
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  ByteSpan payload;   ///< Borrowed from the frame.
  bool sums = false;  ///< The last 64 bits of each are a number, of which only the sum is asked.

  ByteVector encode() const;
  bool decode(ByteSpan bytes);
};

enum class OutcomeCode : std::uint8_t { ok = 0, timeout = 1, mismatch = 2, peer_lost = 3 };

/// The end of an exchange. `payload` is, where ok, nothing for a barrier, the root's bytes for a
/// broadcast, and for an all-gather each rank's length (32 bits) and bytes; among some ranks how many
/// payloads follow (32 bits; 1 where all gave the same) and these; else a message.
struct Outcome {
  std::uint64_t sequence = 0;
  OutcomeCode code = OutcomeCode::ok;
  ByteSpan payload;

  ByteVector encode() const;
  bool decode(ByteSpan body);
};

enum class FailureKind : std::uint8_t {
  lost = 0,        ///< A rank is gone.
  reported = 1,    ///< A rank said so itself.
  not_formed = 2,  ///< The ranks cannot all join any more.
  timeout = 3,     ///< The ranks did not all join in time.
  mismatch = 4,    ///< A rank that tried to join is set up otherwise.
};

struct Failed {
  FailureKind kind = FailureKind::lost;
  std::uint32_t rank = 0;
  std::string text;

  ByteVector encode() const;
  bool decode(ByteSpan body);
};

/// How much a rank that leaves has taken part in, where that was counted.
inline constexpr std::uint64_t kNotCounted = ~std::uint64_t{0};

struct Departed {
  std::uint32_t rank = 0;
  std::uint64_t done = kNotCounted;

  ByteVector encode() const;
  bool decode(ByteSpan body);
};

struct Leave {
  std::uint64_t done = kNotCounted;

  ByteVector encode() const;
  bool decode(ByteSpan body);
};

/// "Look up": the numbers only grow.
struct Call {
  std::uint64_t number = 0;

  ByteVector encode() const;
  bool decode(ByteSpan body);
};

struct Notify {
  static constexpr std::size_t kMaxText = 1000;
  std::string text;

  ByteVector encode() const;
  bool decode(ByteSpan body);
};

struct Rejoin {
  std::uint64_t epoch = 0;
  std::uint32_t timeout_ms = 0;

  ByteVector encode() const;
  bool decode(ByteSpan body);
};

}  // namespace comm::detail
