#include "examples/custom_backend/loopback.h"

#include <utility>

namespace example {

using comm::Operation;
using comm::Result;
using comm::Status;
using comm::StatusCode;

namespace {

/// The fields that most operations have.
template <class Op>
Call call_of(const Op& op) {
  Call call{.info = comm::info_of(op)};
  if constexpr (requires { op.send; }) call.send = op.send;
  if constexpr (requires { op.recv; }) call.recv = op.recv;
  call.recv_count = call.info.count;
  return call;
}

}  // namespace

std::vector<Loopback> Loopback::world(int ranks, std::chrono::nanoseconds timeout) {
  auto table = std::make_shared<Table>(ranks, timeout);
  std::vector<Loopback> all;
  for (int r = 0; r < ranks; ++r) all.push_back(Loopback(std::make_unique<Seat>(table, r)));
  return all;
}

Status Loopback::refuse(Call call) {
  if (seat_ != nullptr) return seat_->table().meet(rank(), std::move(call));
  return comm::make_error(StatusCode::invalid_argument, 0,
                          "%s: this rank is in no communicator; do not communicate",
                          to_string(call.info.operation));
}

Status Loopback::submit(Call call) {
  const Operation operation = call.info.operation;
  if (!is_healthy()) return refuse(std::move(call));
  if (depth_ > 0) {
    pending_.push_back(std::move(call));
    return {};
  }
  Table& table = seat_->table();
  switch (operation) {
    case Operation::send_to: return table.post(rank(), call);
    case Operation::recv_from: return table.take(rank(), call, call.info.peer);
    case Operation::send_recv:
      if (Status s = table.post(rank(), call); !s.ok()) return s;
      return table.take(rank(), call, call.source);
    default: return table.meet(rank(), std::move(call));
  }
}

Status Loopback::all_reduce(const comm::ops::AllReduce& op) {
  return submit(call_of(op));
}
Status Loopback::all_gather(const comm::ops::AllGather& op) {
  return submit(call_of(op));
}
Status Loopback::reduce_scatter(const comm::ops::ReduceScatter& op) {
  return submit(call_of(op));
}
Status Loopback::reduce(const comm::ops::Reduce& op) {
  return submit(call_of(op));
}
Status Loopback::gather(const comm::ops::Gather& op) {
  return submit(call_of(op));
}
Status Loopback::scatter(const comm::ops::Scatter& op) {
  return submit(call_of(op));
}
Status Loopback::barrier(const comm::ops::Barrier& op) {
  return submit(call_of(op));
}

Status Loopback::broadcast(const comm::ops::Broadcast& op) {
  Call call = call_of(op);
  call.recv = op.buffer;
  return submit(std::move(call));
}

Status Loopback::all_to_all(const comm::ops::AllToAll& op) {
  Call call = call_of(op);
  call.send_counts.assign(static_cast<std::size_t>(world_size()), op.count);
  call.recv_counts = call.send_counts;
  return submit(std::move(call));
}

Status Loopback::all_to_all_v(const comm::ops::AllToAllV& op) {
  Call call = call_of(op);
  call.send_counts.assign(op.send_counts, op.send_counts + world_size());
  call.recv_counts.assign(op.recv_counts, op.recv_counts + world_size());
  return submit(std::move(call));
}

Status Loopback::send_to(const comm::ops::SendTo& op) {
  Call call = call_of(op);
  call.send = op.buffer;
  return submit(std::move(call));
}

Status Loopback::recv_from(const comm::ops::RecvFrom& op) {
  Call call = call_of(op);
  call.recv = op.buffer;
  return submit(std::move(call));
}

Status Loopback::send_recv(const comm::ops::SendRecv& op) {
  Call call = call_of(op);
  call.recv_count = op.recv_count;
  call.source = op.source;
  return submit(std::move(call));
}

Status Loopback::barrier_wait(const comm::ops::BarrierWait& op) {
  Call call = call_of(op);
  call.timeout = op.timeout;
  return submit(std::move(call));
}

Status Loopback::recv_command_u32(const comm::ops::RecvCommandU32& op) {
  if (rank() == op.root) {
    return comm::make_error(StatusCode::invalid_argument, 0,
                            "recv_command_u32: rank %d is the root, which sends commands", rank());
  }
  // The root calls broadcast; this is the same meeting, but it may wait for ever.
  Call call = call_of(op);
  call.info.operation = Operation::broadcast;
  call.recv = op.buffer;
  call.timeout = comm::Timeout::never();
  return submit(std::move(call));
}

Status Loopback::group_start(const comm::ops::GroupStart& op) {
  if (!is_healthy()) return refuse(call_of(op));
  ++depth_;
  return {};
}

Status Loopback::group_end(const comm::ops::GroupEnd& op) {
  if (depth_ == 0) {
    return comm::make_error(StatusCode::invalid_argument, 0, "%s: no group is open",
                            to_string(op.operation));
  }
  if (--depth_ > 0) return {};
  const std::vector<Call> calls = std::exchange(pending_, {});
  // A sender waits for nobody here: with all sends first, no order of receives can deadlock.
  Status first;
  for (bool sends : {true, false}) {
    for (const Call& call : calls) {
      if ((call.info.operation == Operation::send_to) != sends) continue;
      Status s = submit(call);
      if (first.ok()) first = std::move(s);
    }
  }
  return first;
}

Result<Loopback> Loopback::split(const comm::ops::Split& op) {
  if (depth_ > 0) {
    return comm::make_error(StatusCode::invalid_argument, 0, "split: not inside of a group");
  }
  std::unique_ptr<Seat> seat;
  Call call = call_of(op);
  call.color = op.color;
  call.key = op.key;
  call.new_seat = &seat;
  if (Status s = submit(std::move(call)); !s.ok()) return s;
  return seat == nullptr ? Loopback() : Loopback(std::move(seat));
}

Result<Loopback> Loopback::shrink(const comm::ops::Shrink& op) {
  if (seat_ == nullptr) return refuse(call_of(op));
  return Loopback(seat_->table().shrink(
      rank(), std::vector<int>(op.excluded, op.excluded + op.excluded_count)));
}

Status Loopback::attempt_reconnect(const comm::ops::AttemptReconnect& op) {
  if (seat_ == nullptr) return refuse(call_of(op));
  return seat_->table().reconnect(rank());
}

Status Loopback::abort(const comm::ops::Abort&) {
  if (seat_ != nullptr) {
    seat_->table().fail(StatusCode::peer_lost, "rank " + std::to_string(rank()) + " aborted");
  }
  return {};
}

}  // namespace example
