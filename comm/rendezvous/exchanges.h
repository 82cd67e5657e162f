#pragma once

/// The exchanges under way at rank 0's service: contributions of all ranks, by sequence number, and
/// what becomes of them. Pure bookkeeping: no sockets, no clock of its own. Not thread-safe.
///
/// An exchange ends for all in the same way: complete, or failed because a deadline passed, ranks
/// called different things, or a rank is gone. A rank that comes late to a failed one is told the
/// same, so sequence numbers stay in step. Exchanges among some of the ranks are found by their id
/// and number; a rank that is gone ends only those that all ranks take part in.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/rendezvous/deadline.h"
#include "comm/rendezvous/messages.h"

namespace comm::detail {

using SharedFrame = std::shared_ptr<const ByteVector>;

class Exchanges {
 public:
  using Deliver = std::function<void(std::uint32_t rank, const SharedFrame& frame)>;

  Exchanges(std::uint32_t world_size, Deliver deliver);

  /// Forgets everything: a new epoch counts from zero.
  void reset();

  /// False where the rank broke the protocol.
  bool contribute(std::uint32_t rank, const Contribution& contribution);

  /// Fails what is under way and all that follows.
  void rank_gone(const std::string& text);

  Deadline next_deadline() const;
  void expire();

 private:
  /// One payload for each that takes part, until all are there.
  struct PendingAmong {
    std::uint32_t arrived = 0;
    Deadline deadline = Deadline::never();
    struct Part {
      bool has_arrived = false;
      std::uint32_t rank = 0;
      std::uint64_t sequence = 0;
      ByteVector payload;
    };
    std::vector<Part> parts;
    bool sums = true;  ///< All of them ask for the sum of their last numbers.
    OutcomeCode code = OutcomeCode::ok;
    std::string verdict;  ///< Why it has failed, once it has.
  };

  static Deadline deadline_of(const Contribution& contribution);
  bool contribute_among(std::uint32_t rank, const Contribution& contribution);
  void complete(const PendingAmong& pending);
  static std::uint64_t sum_of_tails(const PendingAmong& pending);
  void fail(PendingAmong& pending, OutcomeCode code, std::string text);
  void expire_among();

  struct Pending {
    ExchangeKind kind{};
    std::uint32_t root = 0;
    std::uint32_t first_rank = 0;
    std::uint32_t arrived = 0;
    Deadline deadline = Deadline::never();
    std::vector<bool> has_arrived;
    std::vector<ByteVector> payloads;  ///< By rank; for a broadcast, the root's only.
    SharedFrame verdict;               ///< Set once it has failed.
  };

  void complete(std::uint64_t sequence, Pending& pending);
  void fail(std::uint64_t sequence, Pending& pending, OutcomeCode code, const std::string& text);
  std::string missing(const Pending& pending) const;

  std::uint32_t world_size_;
  std::size_t max_payload_;
  Deliver deliver_;
  std::vector<std::uint64_t> next_sequence_;
  std::map<std::uint64_t, Pending> pending_;
  std::vector<std::uint64_t> next_among_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, PendingAmong> among_;  ///< By id and number.
  std::string gone_;  ///< Why no exchange can complete any more.
};

/// What one rank may contribute in a world of this size.
std::size_t max_contribution(std::uint32_t world_size);

/// "2, 5, 7 and 1017 more".
std::string list_ranks(const std::vector<std::uint32_t>& ranks);

}  // namespace comm::detail
