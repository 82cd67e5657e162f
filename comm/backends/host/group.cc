#include "comm/backends/host/group.h"

#include <utility>

namespace comm::detail::host {

Status perform(const Setting& on, const ops::AllReduce& op) {
  return all_reduce(on, op);
}
Status perform(const Setting& on, const ops::AllGather& op) {
  return all_gather(on, op);
}
Status perform(const Setting& on, const ops::ReduceScatter& op) {
  return reduce_scatter(on, op);
}
Status perform(const Setting& on, const ops::Broadcast& op) {
  return broadcast(on, op);
}
Status perform(const Setting& on, const ops::RecvCommandU32& op) {
  return broadcast({on.team, on.symmetric, kForever},
                   {op.buffer, 1, DataType::u32, op.root, op.stream}, Operation::recv_command_u32);
}
Status perform(const Setting& on, const ops::Reduce& op) {
  return reduce(on, op);
}
Status perform(const Setting& on, const ops::Gather& op) {
  return gather(on, op);
}
Status perform(const Setting& on, const ops::Scatter& op) {
  return scatter(on, op);
}
Status perform(const Setting& on, const ops::AllToAll& op) {
  return all_to_all(on, op);
}
Status perform(const Setting& on, const ops::AllToAllV& op) {
  return all_to_all_v(on, op);
}
Status perform(const Setting& on, const ops::Barrier&) {
  return barrier(on);
}

Status perform(const Setting& on, const ops::SendTo& op) {
  Transfer t = Transfer::sending(op.buffer, op.count, op.type, op.peer);
  const Ring& own = on.team.ring(on.team.rank(), op.peer);
  if (op.peer == on.team.rank() &&
      t.footprint() > on.team.layout().ring_bytes - (own.written.load() - own.read.load()))
    return make_error(StatusCode::invalid_argument, 0,
                      "send_to on %s: a message of %zu bytes to itself cannot be received "
                      "while it is sent; send and receive in a group, or use send_recv",
                      on.team.where().text, t.bytes());
  return run(on.team, &t, 1, on.timeout_ns, Operation::send_to);
}

Status perform(const Setting& on, const ops::RecvFrom& op) {
  Transfer t = Transfer::receiving(op.buffer, op.count, op.type, op.peer);
  return run(on.team, &t, 1, on.timeout_ns, Operation::recv_from);
}

Status perform(const Setting& on, const ops::SendRecv& op) {
  Transfer both[] = {Transfer::sending(op.send, op.send_count, op.type, op.dest),
                     Transfer::receiving(op.recv, op.recv_count, op.type, op.source)};
  return run(on.team, both, 2, on.timeout_ns, Operation::send_recv);
}

void Group::add(const ops::AllToAllV& op, int size) {
  KeptAllToAllV kept{op, {op.send_counts, op.send_counts + size}};
  kept.counts.insert(kept.counts.end(), op.recv_counts, op.recv_counts + size);
  collectives_.emplace_back(std::move(kept));
}

void Group::add(const ops::SendTo& op) {
  transfers_.push_back(Transfer::sending(op.buffer, op.count, op.type, op.peer));
}

void Group::add(const ops::RecvFrom& op) {
  transfers_.push_back(Transfer::receiving(op.buffer, op.count, op.type, op.peer));
}

void Group::add(const ops::SendRecv& op) {
  transfers_.push_back(Transfer::sending(op.send, op.send_count, op.type, op.dest));
  transfers_.push_back(Transfer::receiving(op.recv, op.recv_count, op.type, op.source));
}

void Group::spoil(const Status& error) {
  if (spoiled_.ok()) spoiled_ = error.copy();
}

Status Group::perform_kept(const Setting& on, const KeptAllToAllV& kept) {
  ops::AllToAllV op = kept.op;
  op.send_counts = kept.counts.data();
  op.recv_counts = kept.counts.data() + kept.counts.size() / 2;
  return all_to_all_v(on, op);
}

Status Group::close(const Setting& on, Status usable) {
  if (depth_ == 0)
    return make_error(StatusCode::invalid_argument, 0,
                      "group_end on %s: no group is open; each group_end needs a "
                      "group_start of its own",
                      on.team.where().text);
  if (--depth_ != 0) return {};
  const std::vector<Collective> collectives = std::exchange(collectives_, {});
  std::vector<Transfer> transfers = std::exchange(transfers_, {});
  if (Status spoiled = std::exchange(spoiled_, {}); !spoiled.ok()) return spoiled;
  if (!usable.ok()) return usable;
  for (const Collective& collective : collectives) {
    Status done = std::visit(
        [&](const auto& op) {
          if constexpr (requires { op.counts; })
            return perform_kept(on, op);
          else
            return perform(on, op);
        },
        collective);
    if (!done.ok()) return done;
  }
  return run(on.team, transfers.data(), transfers.size(), on.timeout_ns, Operation::group_end);
}

}  // namespace comm::detail::host
