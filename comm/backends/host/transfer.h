#pragma once

/// `Transfer` is one message from a rank to another, through the ring of that pair: a header that
/// says what it is, then the bytes, in as many pieces as the ring needs. A message below `kReadFrom`
/// that fits into the ring is sent without waiting for its receiver. A larger one stays where it is,
/// if ranks may read each other: the header says where, and the receiver fetches it with one copy.
///
/// `run` drives any number of them to their end together, so it does not matter in which order two
/// ranks send and receive to each other, as long as each pair's messages match in order.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/backends/host/team.h"
#include "comm/operations.h"
#include "comm/status.h"

namespace comm::detail::host {

class Transfer {
 public:
  static Transfer sending(const void* buffer, std::size_t count, DataType type, int peer);
  static Transfer receiving(void* buffer, std::size_t count, DataType type, int peer);

  bool is_done() const { return has_header_ && done_ == bytes_; }
  bool is_sending() const { return is_sending_; }
  int peer() const { return peer_; }
  std::size_t bytes() const { return bytes_; }

  /// Moves what can be moved now; true where something was. A message that is not the one expected
  /// is told by `problem`.
  bool progress(Team& team, Status& problem);

  /// Header and bytes, as they lie in the ring.
  std::size_t footprint() const;

 private:
  Transfer() = default;
  bool is_fetched(const Team& team) const;
  bool send_some(Team& team);
  bool offer(Team& team);
  bool receive_some(Team& team, Status& problem);

  const std::byte* from_ = nullptr;
  std::byte* to_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t count_ = 0;
  std::size_t done_ = 0;
  std::uint64_t offered_at_ = 0;  ///< Where the ring's header of an offer ends; 0: none is open.
  int peer_ = 0;
  DataType type_ = DataType::u8;
  bool is_sending_ = false;
  bool has_header_ = false;
};

/// Runs all to their end, or to the first failure, which all ranks are told.
Status run(Team& team, Transfer* transfers, std::size_t n, std::int64_t timeout_ns,
           Operation operation);

}  // namespace comm::detail::host
