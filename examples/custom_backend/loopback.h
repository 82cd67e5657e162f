#pragma once

/// `Loopback` is a backend that somebody else wrote: it includes what comm installs and changes
/// nothing in comm. Its ranks are threads of one process that meet at a table under a lock; the last
/// to arrive does the work of all. That is slow, and short enough to read: teaching code, correct for
/// every operation, type and reduction, and held to comm's contract suite.
///
///     for (example::Loopback& rank : example::Loopback::world(4)) {
///       threads.emplace_back(work, comm::Communicator(std::move(rank)));
///     }
///
/// What a backend has to write is in the first half of the class. What `BackendDefaults` would have
/// given is in the second, where this one can do better: groups, health, split.

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "comm/backend.h"
#include "comm/backend_defaults.h"
#include "examples/custom_backend/table.h"

namespace example {

class Loopback : public comm::BackendDefaults<Loopback> {
 public:
  /// The ranks of a new world, in order. `timeout` bounds every wait for another rank.
  static std::vector<Loopback> world(int ranks,
                                     std::chrono::nanoseconds timeout = std::chrono::minutes(1));

  int rank() const { return seat_ == nullptr ? -1 : seat_->rank(); }
  int world_size() const { return seat_ == nullptr ? 1 : seat_->table().size(); }

  comm::Status all_reduce(const comm::ops::AllReduce& op);
  comm::Status all_gather(const comm::ops::AllGather& op);
  comm::Status reduce_scatter(const comm::ops::ReduceScatter& op);
  comm::Status broadcast(const comm::ops::Broadcast& op);
  comm::Status reduce(const comm::ops::Reduce& op);
  comm::Status gather(const comm::ops::Gather& op);
  comm::Status scatter(const comm::ops::Scatter& op);
  comm::Status all_to_all(const comm::ops::AllToAll& op);
  comm::Status all_to_all_v(const comm::ops::AllToAllV& op);
  comm::Status send_to(const comm::ops::SendTo& op);
  comm::Status recv_from(const comm::ops::RecvFrom& op);
  comm::Status send_recv(const comm::ops::SendRecv& op);
  comm::Status barrier(const comm::ops::Barrier& op);

  // Not required.
  comm::Status barrier_wait(const comm::ops::BarrierWait& op);
  comm::Status recv_command_u32(const comm::ops::RecvCommandU32& op);
  comm::Status group_start(const comm::ops::GroupStart& op);
  comm::Status group_end(const comm::ops::GroupEnd& op);
  comm::Result<Loopback> split(const comm::ops::Split& op);
  comm::Result<Loopback> shrink(const comm::ops::Shrink& op);
  std::uint64_t epoch() const { return seat_ == nullptr ? 0 : seat_->table().epoch(); }
  bool is_healthy() const { return seat_ != nullptr && seat_->table().is_healthy(); }
  comm::Status attempt_reconnect(const comm::ops::AttemptReconnect& op);
  comm::Status abort(const comm::ops::Abort& op);

 private:
  /// Left out of every communicator: refuses all.
  Loopback() = default;
  explicit Loopback(std::unique_ptr<Seat> seat) : seat_(std::move(seat)) {}

  /// The error of a rank that has no table, or whose table has failed.
  comm::Status refuse(Call call);
  /// Runs `call` at once, or when the group that is open ends.
  comm::Status submit(Call call);

  std::unique_ptr<Seat> seat_;
  int depth_ = 0;  ///< Of groups.
  std::vector<Call> pending_;
};

static_assert(comm::Backend<Loopback>);

}  // namespace example
