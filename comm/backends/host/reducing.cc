/// Collectives that compute. Two ways for what does not fit into a post:
///
/// *Flat*: each rank reads everybody's contribution and reduces all of it. One tick a round; good for
/// two ranks at any size, since reading the other's half and then its result is just as much.
///
/// *Two-phase*: each rank reduces its share of a round and the others fetch the result. What is
/// fetched is the round before the one being reduced, so this too takes one tick a round.

#include <algorithm>
#include <cstring>

#include "comm/backends/host/collectives.h"
#include "comm/backends/host/places.h"

namespace comm::detail::host {

namespace {

// Results are copied while they are still in the cache they were made in.
constexpr std::size_t kHot = 16 * 1024;

/// Up to this many bytes it costs less to reduce everything everywhere than to take another tick.
std::size_t flat_limit(const Team& team, DataType type) {
  // Between two ranks both ways move as many bytes; flat computes everything twice, which what is
  // computed in a wider type than it is stored in does not hide.
  const bool is_narrow = type == DataType::bf16 || type == DataType::f16 ||
                         type == DataType::f8e4m3 || type == DataType::f8e5m2;
  if (team.size() <= 2) return is_narrow ? 64 * 1024 : ~std::size_t{0};
  return std::min<std::size_t>(64 * 1024 / static_cast<std::size_t>(team.size()),
                               team.layout().slot_bytes);
}

struct Task {
  const void* send;
  void* recv;  ///< Null where this rank gets no result.
  std::size_t count;
  DataType type;
  std::size_t element = size_of(type);
};

Status reduce_inline(Call& call, Reducer& reducer, const Task& task) {
  reducer.announce();
  Status met = call.meet(task.send, task.count * task.element);
  if (!met.ok() || task.recv == nullptr || task.count == 0) return met;
  reducer.settle();
  const void* sources[kMaxRanks];
  for (int r = 0; r < call.size(); ++r) sources[r] = call.payload(r);
  reducer(task.recv, sources, task.count);
  return met;
}

Status reduce_flat(Call& call, Reducer& reducer, const Task& task) {
  const std::size_t most = call.team().layout().slot_bytes / task.element;
  const void* sources[kMaxRanks];
  reducer.announce();
  for (std::size_t done = 0; done < task.count;) {
    const std::size_t n = std::min(most, task.count - done);
    const std::byte* own = at(task.send, done * task.element);
    std::memcpy(call.next_slot(), own, n * task.element);
    Status met = call.meet();
    if (!met.ok()) return met;
    if (done == 0) reducer.settle();
    if (task.recv != nullptr) {
      for (int r = 0; r < call.size(); ++r) sources[r] = call.slot(r);
      sources[call.rank()] = own;
      reducer(at(task.recv, done * task.element), sources, n);
    }
    done += n;
  }
  return {};
}

Status reduce_in_two_phases(Call& call, Reducer& reducer, const Task& task) {
  Team& team = call.team();
  const int size = call.size();
  const std::size_t e = task.element;
  // Such that every share fits into an out slot.
  const std::size_t most = team.layout().slot_bytes / e / kLine * kLine;
  const void* sources[kMaxRanks];
  std::size_t fetched = 0;
  reducer.announce();
  for (std::size_t done = 0; fetched < task.count;) {
    const std::size_t n = std::min(most, task.count - done);
    const Share mine = Share::of(n, e, call.rank(), size);
    const std::byte* own = at(task.send, done * e);
    std::byte* slot = call.next_slot();
    const std::size_t after = mine.begin + mine.size;
    if (n != 0) {
      std::memcpy(slot, own, mine.begin * e);
      std::memcpy(slot + after * e, own + after * e, (n - after) * e);
    }
    std::byte* const results = call.next_out_slot();
    const std::uint32_t before = team.tick();
    Status met = call.meet();
    if (!met.ok()) return met;
    if (done == 0) reducer.settle();

    // The round before.
    if (done != fetched) {
      const std::size_t was = done - fetched;
      for (int r = 0; task.recv != nullptr && r < size; ++r) {
        const Share theirs = Share::of(was, e, r, size);
        if (r == call.rank() || theirs.size == 0) continue;
        std::memcpy(at(task.recv, (fetched + theirs.begin) * e), team.out_slot(r, before),
                    theirs.size * e);
      }
      fetched = done;
    }
    for (std::size_t i = 0; i < mine.size; i += kHot / e) {
      const std::size_t m = std::min(kHot / e, mine.size - i);
      for (int r = 0; r < size; ++r) sources[r] = call.slot(r) + (mine.begin + i) * e;
      sources[call.rank()] = own + (mine.begin + i) * e;
      reducer(results + i * e, sources, m);
      if (task.recv != nullptr)
        std::memcpy(at(task.recv, (done + mine.begin + i) * e), results + i * e, m * e);
    }
    done += n;
  }
  return {};
}

/// Each rank reduces its share of everybody's buffer and writes it into everybody's.
Status reduce_directly(Call& call, Reducer& reducer, const Task& task, const Places& places) {
  const std::size_t e = task.element;
  const Share mine = Share::of(task.count, e, call.rank(), call.size());
  const void* sources[kMaxRanks];
  reducer.settle();
  for (std::size_t i = 0; i < mine.size; i += kHot / e) {
    const std::size_t m = std::min(kHot / e, mine.size - i);
    const std::size_t where = (mine.begin + i) * e;
    for (int r = 0; r < call.size(); ++r) sources[r] = places.send[r] + where;
    std::byte* result = at(task.recv, where);
    reducer(result, sources, m);
    for (int r = 0; r < call.size(); ++r)
      if (r != call.rank()) std::memcpy(places.recv[r] + where, result, m * e);
  }
  return call.meet();
}

Status reduce_by_size(Call& call, Reducer& reducer, const Task& task) {
  const std::size_t bytes = task.count * task.element;
  if (bytes <= kInline) return reduce_inline(call, reducer, task);
  if (bytes <= flat_limit(call.team(), task.type)) return reduce_flat(call, reducer, task);
  return reduce_in_two_phases(call, reducer, task);
}

}  // namespace

void Reducer::show_factor() {
  Team& team = call_.team();
  team.lines(team.rank()).factors[(team.tick() + 1) & 1] = op_.factor();
}

void Reducer::read_factors() {
  Team& team = call_.team();
  for (int r = 0; r < team.size(); ++r) factors_[r] = team.lines(r).factors[team.tick() & 1];
}

Status all_reduce(const Setting& on, const ops::AllReduce& op) {
  Call call(on.team, {Operation::all_reduce, op.type, true, op.op.kind()}, op.count, on.timeout_ns);
  Reducer reducer(call, op.type, op.op);
  const Task task{op.send, op.recv, op.count, op.type};
  const std::size_t bytes = task.count * task.element;
  if (bytes >= kDirectFrom) {
    Places places;
    reducer.announce();
    Status met = exchange_places(call, on.symmetric, op.send, bytes, op.recv, bytes, places);
    if (!met.ok()) return met;
    if (places.are_mapped) return reduce_directly(call, reducer, task, places);
  }
  return reduce_by_size(call, reducer, task);
}

Status reduce(const Setting& on, const ops::Reduce& op) {
  Call call(on.team, {Operation::reduce, op.type, true, op.op.kind(), op.root}, op.count,
            on.timeout_ns);
  Reducer reducer(call, op.type, op.op);
  void* const recv = call.rank() == op.root ? op.recv : nullptr;
  return reduce_by_size(call, reducer, {op.send, recv, op.count, op.type});
}

Status reduce_scatter(const Setting& on, const ops::ReduceScatter& op) {
  Call call(on.team, {Operation::reduce_scatter, op.type, true, op.op.kind()}, op.count,
            on.timeout_ns);
  Reducer reducer(call, op.type, op.op);
  const std::size_t e = size_of(op.type);
  const auto size = static_cast<std::size_t>(call.size());
  const std::size_t own_block = static_cast<std::size_t>(call.rank()) * op.count;
  const void* sources[kMaxRanks];
  reducer.announce();

  Places places;
  const std::size_t bytes = op.count * e;
  if (bytes * size >= kDirectFrom) {
    Status met = exchange_places(call, on.symmetric, op.send, bytes * size, op.send, 0, places);
    if (!met.ok()) return met;
  }
  if (places.are_mapped) {
    reducer.settle();
    for (int r = 0; r < call.size(); ++r) sources[r] = places.send[r] + own_block * e;
    reducer(op.recv, sources, op.count);
    return call.meet();
  }

  // A slot holds a piece for each rank.
  const std::size_t most = on.team.layout().slot_bytes / e / size / kLine * kLine;
  for (std::size_t done = 0;;) {
    const std::size_t n = std::min(most, op.count - done);
    std::byte* slot = call.next_slot();
    for (std::size_t r = 0; r < size; ++r)
      if (r != static_cast<std::size_t>(call.rank()) && n != 0)
        std::memcpy(slot + r * most * e, at(op.send, (r * op.count + done) * e), n * e);
    Status met = call.meet();
    if (!met.ok() || n == 0) return met;
    if (done == 0) reducer.settle();
    for (int r = 0; r < call.size(); ++r)
      sources[r] = call.slot(r) + static_cast<std::size_t>(call.rank()) * most * e;
    sources[call.rank()] = at(op.send, (own_block + done) * e);
    reducer(at(op.recv, done * e), sources, n);
    done += n;
    if (done == op.count) return met;
  }
}

}  // namespace comm::detail::host
