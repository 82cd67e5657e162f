#pragma once

/// One rank of a job over all its epochs: on rank 0 the listener and the service, on every rank the
/// channel of the present epoch. Thread-safe, but leaving is for when no other call is under way.

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "comm/logger.h"
#include "comm/rendezvous/channel.h"
#include "comm/rendezvous/hub.h"
#include "comm/rendezvous/listener.h"
#include "comm/rendezvous/log.h"
#include "comm/rendezvous/out_of_band.h"
#include "comm/rendezvous/root_listener.h"

namespace comm::detail {

class Member {
 public:
  static Result<std::unique_ptr<Member>> join(RendezvousConfig config);
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  int rank() const { return config_.launch.rank; }
  int world_size() const { return config_.launch.world_size; }
  std::uint64_t epoch() const { return epoch_.load(std::memory_order_relaxed); }
  std::string session() const;

  Result<ByteVector> exchange(ExchangeKind kind, int root, ByteSpan payload, Milliseconds timeout);
  Result<ByteVector> gather_among(const OutOfBand::Among& ranks, ByteSpan payload,
                                  Milliseconds timeout);
  Status check();
  int lost_rank() const;
  int departed_rank() const;
  Departed departure() const;
  void conclude(std::uint64_t done) { done_.store(done, std::memory_order_relaxed); }
  void call(std::uint64_t number);
  std::uint64_t called() const;
  void notify(std::string_view text);
  Status rejoin(Milliseconds timeout);
  void leave();

 private:
  explicit Member(RendezvousConfig config);
  Status join_first();
  Status start_service(std::uint64_t epoch, Deadline deadline);
  Status enter_epoch(std::uint64_t epoch, Deadline deadline);
  Hello hello(std::uint64_t epoch) const;
  std::shared_ptr<Channel> channel() const;
  bool alone() const { return world_size() == 1; }

  const RendezvousConfig config_;
  const std::shared_ptr<Logger> log_;
  const ProcessId self_;
  std::shared_ptr<Listener> listener_;
  std::unique_ptr<PublishedAddress> published_;
  std::unique_ptr<Hub> hub_;
  Joined local_;  ///< Rank 0's pair to its service, while no channel has it.

  std::mutex rejoin_mutex_;
  mutable std::mutex mutex_;  ///< For what follows.
  std::shared_ptr<Channel> channel_;
  Status down_;  ///< Why there is no channel.
  SessionId session_{};
  std::atomic<std::uint64_t> epoch_{0};
  std::atomic<std::uint64_t> done_{kNotCounted};
};

}  // namespace comm::detail
