#pragma once

/// What lies where in the shared memory of one communicator (a "team") of the Host backend. All of
/// it is valid when zero, so fresh memory needs no initialisation and a team starts at tick 0.
///
///     Header | RankLines[n] | Ring[n * n] | ring bytes | in slots[n][2] | out slots[n][2]
///
/// A *tick* is one step that all ranks of a team take together. In each, a rank writes its slot of
/// that parity, then its `Post`, and waits for the posts of all others. Nobody can be more than one
/// tick ahead, so what was written at tick t may be overwritten at t + 2: two slots are enough, and
/// no operation starts with a barrier.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "comm/operations.h"

namespace comm::detail::host {

inline constexpr int kMaxRanks = 64;
inline constexpr std::size_t kLine = 64;
inline constexpr std::size_t kPage = 4096;
inline constexpr std::size_t kInline = 48;  ///< Bytes that travel in the post itself.

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

constexpr std::size_t round_up(std::size_t n, std::size_t unit) {
  return (n + unit - 1) / unit * unit;
}

/// What a rank is doing: the tick in the lower half of `word`, and in the upper half, with `count`,
/// what must be equal on all ranks. One cache line: a small payload arrives with its flag.
struct alignas(kLine) Post {
  std::atomic<std::uint64_t> word;
  std::atomic<std::uint64_t> count;
  std::byte payload[kInline];
};
static_assert(sizeof(Post) == kLine);

/// The upper half of `Post::word`: operation, type, reduction and root in distinct bits.
struct Meta {
  Operation operation;
  DataType type = DataType::u8;
  bool reduces = false;
  ReduceOp::Kind kind = ReduceOp::Kind::sum;
  int root = -1;

  constexpr std::uint64_t word() const {
    const auto root_bits = static_cast<std::uint64_t>(root + 1);
    return (std::uint64_t{1} << 63) | (static_cast<std::uint64_t>(operation) << 56) |
           (static_cast<std::uint64_t>(type) << 52) | (std::uint64_t{reduces} << 51) |
           (static_cast<std::uint64_t>(kind) << 48) | (root_bits << 32);
  }
  static constexpr Meta from_word(std::uint64_t w) {
    return {static_cast<Operation>((w >> 56) & 0x7f), static_cast<DataType>((w >> 52) & 0xf),
            ((w >> 51) & 1) != 0, static_cast<ReduceOp::Kind>((w >> 48) & 7),
            static_cast<int>((w >> 32) & 0xffff) - 1};
  }
};

/// Stands for an exchange of a few bytes in `Meta`: `synchronize` itself never meets other ranks.
inline constexpr Operation kExchange = Operation::synchronize;

enum class RankState : std::uint32_t { absent, running, left };

/// What belongs to one rank and is not on the path of every operation.
struct alignas(2 * kLine) RankLines {
  Post posts[2];  ///< By the parity of the tick.

  /// Bit r: rank r sleeps until this rank does something. Checked after each post; in the cache of
  /// this rank unless somebody sleeps.
  alignas(2 * kLine) std::atomic<std::uint64_t> waiters;
  std::atomic<std::uint32_t> wake;  ///< The futex this rank sleeps on.
  std::atomic<RankState> state;
  std::atomic<bool> reads_peers;   ///< Whether it may read the memory of all others.
  std::atomic<std::int32_t> core;  ///< 1 + where it last began a long wait; 0 before.

  double factors[2];  ///< Of a pre-multiplied sum, by parity.

  /// Shrinking works while the team is broken, so it has words of its own: how often this rank has
  /// called it, who shall remain, and on the first of those where the new team lies.
  alignas(2 * kLine) std::atomic<std::uint64_t> shrink_mask;
  std::atomic<std::uint32_t> shrink_calls;
  std::atomic<std::uint32_t> shrink_answers;
  std::atomic<std::uint32_t> shrink_acknowledged;
  std::atomic<std::int32_t> shrink_error;
  std::atomic<std::uint64_t> shrink_offset;
};

/// The first failure of a team, in words, for all of its ranks.
struct Cause {
  std::uint32_t code;
  std::int32_t native_code;
  char text[1024];
};

enum class Poison : std::uint32_t { none, being_written, set };

struct alignas(kPage) Header {
  alignas(2 * kLine) std::atomic<Poison> poison;
  alignas(2 * kLine) std::atomic<std::uint32_t> detached;  ///< Ranks that will not come back.
  Cause cause;
};

/// Bytes from one rank to another. `written` and `read` only grow.
struct alignas(2 * kLine) Ring {
  std::atomic<std::uint64_t> written;
  std::uint64_t read_seen;  ///< The sender's own: what it last saw of `read`.
  alignas(kLine) std::atomic<std::uint64_t> read;
  /// Where the header ends of the last message that its receiver could not fetch from the sender's
  /// memory, and which therefore comes through the ring.
  std::atomic<std::uint64_t> unfetched;
};

/// The first page of the file: where the next region goes.
struct alignas(kPage) FileHead {
  std::atomic<std::uint64_t> end;
};

/// At the end of each symmetric allocation.
struct alignas(kPage) SymmetricHead {
  std::atomic<std::uint32_t> freed;
};

/// Sizes and places for a team of `n` ranks.
struct Layout {
  std::size_t n;
  std::size_t slot_bytes;  ///< Of an in slot.
  std::size_t out_bytes;   ///< Of an out slot.
  std::size_t ring_bytes;  ///< A power of two.

  static constexpr Layout of(int ranks, std::size_t slot_bytes) {
    const auto n = static_cast<std::size_t>(ranks);
    std::size_t ring = 128 * 1024;
    while (ring > 8 * 1024 && ring * n * n > 4 * 1024 * 1024) ring /= 2;
    slot_bytes = round_up(slot_bytes < 64 * 1024 ? 64 * 1024 : slot_bytes, kPage);
    return {n, slot_bytes, round_up(slot_bytes / n + kLine, kPage), ring};
  }

  constexpr std::size_t lines() const { return sizeof(Header); }
  constexpr std::size_t rings() const { return lines() + n * sizeof(RankLines); }
  constexpr std::size_t ring_data() const {
    return round_up(rings() + n * n * sizeof(Ring), kPage);
  }
  constexpr std::size_t slots() const { return ring_data() + n * n * ring_bytes; }
  constexpr std::size_t outs() const { return slots() + 2 * n * slot_bytes; }
  constexpr std::size_t total() const { return outs() + 2 * n * out_bytes; }
};

}  // namespace comm::detail::host
