/// Collectives that only move: each round a rank fills its slot and the others take what is theirs.

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "comm/backends/host/collectives.h"
#include "comm/backends/host/places.h"

namespace comm::detail::host {

namespace {

void move_bytes(void* to, const void* from, std::size_t bytes) {
  if (to != from && bytes != 0) std::memcpy(to, from, bytes);
}

/// `send`, of `bytes`, to every rank that has `takes`; there into block r of `recv`.
Status spread(Call& call, const void* send, void* recv, std::size_t bytes, bool takes) {
  const auto block = [&](int r) { return static_cast<std::size_t>(r) * bytes; };
  if (bytes <= kInline) {
    call.post(send, bytes);
    if (takes) move_bytes(at(recv, block(call.rank())), send, bytes);
    Status met = call.await();
    for (int r = 0; met.ok() && takes && r < call.size(); ++r)
      if (r != call.rank()) move_bytes(at(recv, block(r)), call.payload(r), bytes);
    return met;
  }
  const std::size_t most = call.team().layout().slot_bytes;
  for (std::size_t done = 0; done < bytes; done += most) {
    const std::size_t n = std::min(most, bytes - done);
    std::memcpy(call.next_slot(), at(send, done), n);
    call.post();
    if (takes) move_bytes(at(recv, block(call.rank()) + done), at(send, done), n);
    Status met = call.await();
    if (!met.ok()) return met;
    for (int r = 0; takes && r < call.size(); ++r)
      if (r != call.rank()) std::memcpy(at(recv, block(r) + done), call.slot(r), n);
  }
  return {};
}

/// Block r of `send` to rank r, from each rank that has `gives`; into block of the giver of `recv`,
/// or, where there is but one giver, `recv` itself.
Status deal(Call& call, const void* send, void* recv, std::size_t bytes, int only_giver) {
  const auto size = static_cast<std::size_t>(call.size());
  const auto own = static_cast<std::size_t>(call.rank());
  const bool gives = only_giver < 0 || only_giver == call.rank();
  const std::size_t most = call.team().layout().slot_bytes / size / kLine * kLine;
  for (std::size_t done = 0;;) {
    const std::size_t n = std::min(most, bytes - done);
    std::byte* slot = call.next_slot();
    for (std::size_t r = 0; gives && r < size; ++r)
      if (r != own) move_bytes(slot + r * most, at(send, r * bytes + done), n);
    const auto place = [&](std::size_t r) {
      return at(recv, (only_giver >= 0 ? 0 : r * bytes) + done);
    };
    call.post();
    if (gives) move_bytes(place(own), at(send, own * bytes + done), n);
    Status met = call.await();
    if (!met.ok() || n == 0) return met;
    for (std::size_t r = 0; r < size; ++r) {
      const bool is_giver = only_giver < 0 || r == static_cast<std::size_t>(only_giver);
      if (is_giver && r != own)
        move_bytes(place(r), call.slot(static_cast<int>(r)) + own * most, n);
    }
    done += n;
    if (done == bytes) return met;
  }
}

}  // namespace

Status barrier(const Setting& on, Operation name) {
  Call call(on.team, {Operation::barrier}, 0, on.timeout_ns, name);
  return call.meet();
}

Status all_gather(const Setting& on, const ops::AllGather& op) {
  Call call(on.team, {Operation::all_gather, op.type}, op.count, on.timeout_ns);
  const std::size_t bytes = op.count * size_of(op.type);
  const auto block = [&](int r) { return at(op.recv, static_cast<std::size_t>(r) * bytes); };
  if (bytes >= kDirectFrom) {
    bool done = false;
    Status met = move_directly(
        call, on.symmetric, op.send, bytes, bytes, done,
        [&](const Places& p, int r) { return p.take(call, r, 0, block(r), bytes); },
        [&] { move_bytes(block(call.rank()), op.send, bytes); });
    if (!met.ok() || done) return met;
  }
  return spread(call, op.send, op.recv, bytes, true);
}

Status gather(const Setting& on, const ops::Gather& op) {
  Call call(on.team, {.operation = Operation::gather, .type = op.type, .root = op.root}, op.count,
            on.timeout_ns);
  const std::size_t bytes = op.count * size_of(op.type);
  const bool takes = call.rank() == op.root;
  const auto block = [&](int r) { return at(op.recv, static_cast<std::size_t>(r) * bytes); };
  if (bytes >= kDirectFrom) {
    bool done = false;
    Status met = move_directly(
        call, on.symmetric, op.send, bytes, bytes, done,
        [&](const Places& p, int r) { return !takes || p.take(call, r, 0, block(r), bytes); },
        [&] {
          if (takes) move_bytes(block(op.root), op.send, bytes);
        });
    if (!met.ok() || done) return met;
  }
  return spread(call, op.send, op.recv, bytes, takes);
}

Status broadcast(const Setting& on, const ops::Broadcast& op, Operation name) {
  Call call(on.team, {.operation = Operation::broadcast, .type = op.type, .root = op.root},
            op.count, on.timeout_ns, name);
  const std::size_t bytes = op.count * size_of(op.type);
  const bool gives = call.rank() == op.root;
  if (bytes <= kInline) {
    Status met = call.meet(op.buffer, gives ? bytes : 0);
    if (met.ok() && !gives) move_bytes(op.buffer, call.payload(op.root), bytes);
    return met;
  }
  if (bytes >= kDirectFrom) {
    bool done = false;
    Status met = move_directly(
        call, on.symmetric, op.buffer, bytes, bytes, done,
        [&](const Places& p, int r) {
          return r != op.root || p.take(call, r, 0, op.buffer, bytes);
        },
        [] {});
    if (!met.ok() || done) return met;
  }
  const std::size_t most = on.team.layout().slot_bytes;
  for (std::size_t done = 0; done < bytes; done += most) {
    const std::size_t n = std::min(most, bytes - done);
    if (gives) std::memcpy(call.next_slot(), at(op.buffer, done), n);
    Status met = call.meet();
    if (!met.ok()) return met;
    if (!gives) std::memcpy(at(op.buffer, done), call.slot(op.root), n);
  }
  return {};
}

Status scatter(const Setting& on, const ops::Scatter& op) {
  Call call(on.team, {.operation = Operation::scatter, .type = op.type, .root = op.root}, op.count,
            on.timeout_ns);
  const std::size_t bytes = op.count * size_of(op.type);
  if (bytes >= kDirectFrom) {
    const bool gives = call.rank() == op.root;
    const std::size_t mine = static_cast<std::size_t>(call.rank()) * bytes;
    bool done = false;
    Status met = move_directly(
        call, on.symmetric, gives ? op.send : op.recv,
        gives ? bytes * static_cast<std::size_t>(call.size()) : bytes, bytes, done,
        [&](const Places& p, int r) {
          return r != op.root || p.take(call, r, mine, op.recv, bytes);
        },
        [&] {
          if (gives) move_bytes(op.recv, at(op.send, mine), bytes);
        });
    if (!met.ok() || done) return met;
  }
  return deal(call, op.send, op.recv, bytes, op.root);
}

Status all_to_all(const Setting& on, const ops::AllToAll& op) {
  Call call(on.team, {Operation::all_to_all, op.type}, op.count, on.timeout_ns);
  const std::size_t bytes = op.count * size_of(op.type);
  const std::size_t all = bytes * static_cast<std::size_t>(call.size());
  if (all >= kDirectFrom) {
    const auto block = [&](int r) { return static_cast<std::size_t>(r) * bytes; };
    const std::size_t mine = block(call.rank());
    bool done = false;
    Status met = move_directly(
        call, on.symmetric, op.send, all, bytes, done,
        [&](const Places& p, int r) { return p.take(call, r, mine, at(op.recv, block(r)), bytes); },
        [&] { move_bytes(at(op.recv, mine), at(op.send, mine), bytes); });
    if (!met.ok() || done) return met;
  }
  return deal(call, op.send, op.recv, bytes, -1);
}

Status all_to_all_v(const Setting& on, const ops::AllToAllV& op) {
  Call call(on.team, {Operation::all_to_all_v, op.type}, 0, on.timeout_ns);
  const std::size_t e = size_of(op.type);
  const auto size = static_cast<std::size_t>(call.size());
  const auto own = static_cast<std::size_t>(call.rank());

  // Everybody's counts to everybody: all find the same disagreement, and know the rounds to come.
  const std::size_t row = size * sizeof(std::size_t);
  std::memcpy(call.next_slot(), op.send_counts, row);
  std::memcpy(call.next_slot() + row, op.recv_counts, row);
  Status met = call.meet();
  if (!met.ok()) return met;
  const auto count = [&](std::size_t rank, std::size_t column) {
    return reinterpret_cast<const std::size_t*>(call.slot(static_cast<int>(rank)))[column];
  };
  std::size_t largest = 0;
  for (std::size_t from = 0; from < size; ++from) {
    for (std::size_t to = 0; to < size; ++to) {
      const std::size_t sent = count(from, to);
      const std::size_t expected = count(to, size + from);
      largest = std::max(largest, sent);
      if (sent != expected)
        return call.fail(make_error(StatusCode::mismatch, 0,
                                    "%s sends %zu elements to %s, which expects %zu",
                                    on.team.name(static_cast<int>(from)).text, sent,
                                    on.team.name(static_cast<int>(to)).text, expected));
    }
  }

  const std::size_t most = on.team.layout().slot_bytes / size / kLine * kLine;
  const auto piece = [&](std::size_t elements, std::size_t done) {
    return elements * e > done ? std::min(most, elements * e - done) : 0;
  };
  // Where a rank has nothing there may be no buffer, nor an address in one.
  for (std::size_t done = 0; done < largest * e; done += most) {
    std::byte* slot = call.next_slot();
    std::size_t from = done;
    std::size_t kept = 0;
    for (std::size_t r = 0; r < size; ++r) {
      const std::size_t n = piece(op.send_counts[r], done);
      if (r == own) kept = from;
      if (r != own && n != 0) std::memcpy(slot + r * most, at(op.send, from), n);
      from += op.send_counts[r] * e;
    }
    met = call.meet();
    if (!met.ok()) return met;
    std::size_t to = done;
    for (std::size_t r = 0; r < size; ++r) {
      const std::size_t n = piece(op.recv_counts[r], done);
      const std::byte* theirs = call.slot(static_cast<int>(r)) + own * most;
      if (n != 0) std::memcpy(at(op.recv, to), r == own ? at(op.send, kept) : theirs, n);
      to += op.recv_counts[r] * e;
    }
  }
  return {};
}

}  // namespace comm::detail::host
