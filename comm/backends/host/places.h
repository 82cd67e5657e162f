#pragma once

/// Where ranks have their buffers, and taking data from there with one copy instead of two: `Places`
/// is learnt in one tick, `take_directly` ends with another, so that no rank returns, and changes its
/// buffer, while another one reads it.

#include <cstdint>
#include <cstring>

#include "comm/backends/host/call.h"
#include "comm/backends/host/symmetric.h"

namespace comm::detail::host {

/// Below this an additional tick costs more than a copy.
inline constexpr std::size_t kDirectFrom = 8 * 1024;

/// Below this a system call costs more than a second copy. Where nobody has written the data since it
/// was last read it pays from 8 KiB on; but who sends has mostly just written.
inline constexpr std::size_t kReadFrom = 16 * 1024;

/// Buffers of all ranks: mapped here, if all of them are in symmetric memory; or else, where peers
/// may be read, addresses of theirs.
struct Places {
  bool are_mapped = false;
  bool are_readable = false;
  std::byte* send[kMaxRanks];
  std::byte* recv[kMaxRanks];

  /// `bytes` at `offset` of what rank `r` sends, to `to`; false where that cannot be read.
  bool take(const Call& call, int r, std::size_t offset, void* to, std::size_t bytes) const;
};

/// Meets all ranks to learn where their buffers are; does not where that can be of no use. `read`
/// are the bytes that some rank would read from another's `send`.
Status exchange_places(Call& call, const SymmetricMemory& memory, const void* send,
                       std::size_t send_bytes, const void* recv, std::size_t recv_bytes,
                       Places& places, std::size_t read = 0);

/// Each rank takes what is its own from the others: `take(r)` says whether it could. Where one could
/// not, because a buffer is of a kind that the kernel does not read, all go the other way, now and
/// from then on: `done` is false. `own` is done while the others finish.
template <class Take, class Own>
Status take_directly(Call& call, bool& done, Take take, Own own) {
  bool could = true;
  for (int i = 1; could && i < call.size(); ++i) could = take((call.rank() + i) % call.size());
  const std::uint32_t failed = could ? 0 : 1;
  call.post(&failed, sizeof failed);
  own();
  Status met = call.await();
  if (!met.ok()) return met;
  done = true;
  for (int r = 0; r < call.size(); ++r) {
    std::uint32_t theirs;
    std::memcpy(&theirs, call.payload(r), sizeof theirs);
    if (theirs != 0) done = false;
  }
  if (!done) call.team().stop_reading_peers();
  return {};
}

/// With one copy, where ranks can, from what each of them has at `send`: `take(places, r)` takes what is
/// this rank's own from rank `r`, at most `bytes`, and `own()` what it has itself. Where they cannot,
/// `done` stays false.
template <class Take, class Own>
Status move_directly(Call& call, const SymmetricMemory& memory, const void* send,
                     std::size_t send_bytes, std::size_t bytes, bool& done, Take take, Own own) {
  Places places;
  Status met = exchange_places(call, memory, send, send_bytes, send, 0, places, bytes);
  if (!met.ok() || !(places.are_mapped || places.are_readable)) return met;
  return take_directly(
      call, done, [&](int r) { return take(places, r); }, own);
}

}  // namespace comm::detail::host
