/// Going on without some ranks. Where NCCL can shrink what there is, it does. Where it cannot, because
/// it is too old or because what failed was aborted (`abort_on_failure`), the ranks that remain make
/// a new communicator. Which it is they agree on beside NCCL, since they may know differently much.

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "comm/backends/nccl/connect.h"
#include "comm/backends/nccl/derive.h"
#include "comm/backends/nccl/entry.h"
#include "comm/backends/nccl/native.h"

namespace comm::detail::nccl {
namespace {

/// Apart from what the new communicator exchanges later, which counts from 0.
constexpr std::uint64_t kExchange = ~std::uint64_t{0};

/// What each rank that remains tells the others.
struct Wish {
  std::uint32_t failed;
  std::uint32_t has_native;  ///< NCCL has something to shrink here, and knows how.
  ncclUniqueId id;           ///< The first one's counts.
};

struct Rest {
  std::vector<int> excluded;  ///< In order, each once.
  int rank = 0;               ///< This rank's place among those that remain.
  int size = 0;
};

Rest rest_of(const State& state, const ops::Shrink& op) {
  Rest rest;
  rest.excluded.assign(op.excluded, op.excluded + op.excluded_count);
  std::sort(rest.excluded.begin(), rest.excluded.end());
  rest.excluded.erase(std::unique(rest.excluded.begin(), rest.excluded.end()), rest.excluded.end());
  const auto below = std::lower_bound(rest.excluded.begin(), rest.excluded.end(), state.rank);
  rest.rank = state.rank - static_cast<int>(below - rest.excluded.begin());
  rest.size = state.world_size - static_cast<int>(rest.excluded.size());
  return rest;
}

/// Makes `wish` that of all: failed where one has, native where all can, the id of the first.
Status agree(State& state, const Rest& rest, std::uint64_t id, const Deadline& deadline,
             Wish& wish) {
  if (rest.rank == 0) {
    const ncclResult_t result = ncclGetUniqueId(&wish.id);
    if (result != ncclSuccess)
      return state.nccl_error(result, Operation::shrink, "ncclGetUniqueId");
  }
  if (rest.size == 1 || state.channel == nullptr) return {};
  Result<Bytes> told =
      state.channel->gather_among({id, kExchange, rest.rank, rest.size, true},
                                  std::as_bytes(std::span(&wish, 1)), deadline.remaining());
  if (!told.ok()) return std::move(told).status();
  for (int r = rest.size - 1; r >= 0; --r) {
    Wish theirs;
    std::memcpy(&theirs, told->data() + static_cast<std::size_t>(r) * sizeof theirs, sizeof theirs);
    wish.failed |= theirs.failed;
    wish.has_native &= theirs.has_native;
    wish.id = theirs.id;
  }
  return {};
}

Result<std::shared_ptr<State>> shrink_native(State& state, const Rest& rest, bool failed,
                                             std::uint64_t id, const Deadline& deadline) {
  const ncclComm_t parent = state.comm.load();
  const bool blocking = state.config.mode == NcclMode::blocking;
  Result<ncclComm_t> native = make_native(
      state, Operation::shrink, deadline, parent, "ncclCommShrink",
      [parent, excluded = rest.excluded, failed,
       c = native_config(state.config, blocking)](ncclComm_t* child) mutable {
        return nccl::shrink(parent, excluded.data(), static_cast<int>(excluded.size()), child, &c,
                            failed);
      },
      failed);
  state.lock->unlock();
  if (!native.ok()) {
    if (!failed) return state.poison(std::move(native).status());
    return std::move(native).status();
  }
  return wrap(state, *native, Operation::shrink, id, deadline);
}

Result<std::shared_ptr<State>> rebuild(State& state, const Rest& rest, const Wish& wish,
                                       std::uint64_t id, const Deadline& deadline) {
  std::shared_ptr<State> part = part_of(state, id);
  part->rank = rest.rank;
  part->world_size = rest.size;
  part->ignores_channel = part->ignores_channel || wish.failed != 0;
  part->open_log();
  Status made = part->connect_as(wish.id, Operation::shrink, deadline);
  state.lock->unlock();
  return finish(std::move(part), std::move(made), state, Operation::shrink, deadline);
}

/// What has failed is of no use any more, and what it has under way could keep the GPU from all else:
/// where NCCL shrinks, it ends that by itself.
void give_up(State& state) {
  if (state.is_open())
    state
        .poison(state.error(StatusCode::peer_lost, 0, Operation::shrink,
                            "a rank that remains says that this communicator has failed"))
        .ignore();
  state.abort_native().ignore();
}

}  // namespace

Result<std::shared_ptr<State>> shrink(State& state, const ops::Shrink& op) {
  if ((state.gate.load() & kLeftOut) != 0) return state.refuse(Operation::shrink);
  if (open_groups() > 0) return state.can_wait(state.stream, Operation::shrink);
  const Deadline deadline = deadline_of(state);
  const Rest rest = rest_of(state, op);
  // After a failure NCCL ends what is under way first; that is what this is for.
  const bool failed = !state.is_open() || !state.look(Operation::shrink).ok();

  // Whoever is excluded does not count along: each set of ranks has a count of its own.
  std::uint64_t division = 1;
  for (const int rank : rest.excluded) division = mix(division, static_cast<std::uint32_t>(rank));
  state.agreement.begin_epoch(state.epoch.load());
  const std::uint64_t id = state.agreement.id_of_part(division | 1, rest.excluded.size());

  Wish wish{};
  wish.failed = failed ? 1 : 0;
  const bool is_kept = !failed || !state.config.abort_on_failure;
  wish.has_native = has_shrink() && is_kept && state.comm.load() != nullptr ? 1 : 0;
  const bool has_native = wish.has_native != 0;
  Status agreed = agree(state, rest, id, deadline, wish);
  // Rank 0 may be the one that is gone. NCCL needs nobody's help to shrink what it still has.
  if (!agreed.ok() && !has_native)
    return state.error(agreed.code(), agreed.native_code(), Operation::shrink,
                       "the ranks that remain did not find together: %s; if rank 0 is among those "
                       "that are gone, start again, or use abort_on_failure = false",
                       agreed.message());
  if (!agreed.ok()) wish.has_native = 1;
  if (wish.has_native == 0 && wish.failed != 0) give_up(state);

  if (!state.lock_until(Operation::shrink, deadline))
    return state.error(StatusCode::timeout, 0, Operation::shrink,
                       "another thread is still inside NCCL on this GPU, in %s",
                       to_string(state.lock->operation()));
  if (wish.has_native == 0) return rebuild(state, rest, wish, id, deadline);
  if (state.comm.load() == nullptr) {
    state.lock->unlock();
    return state.refuse(Operation::shrink);
  }
  return shrink_native(state, rest, wish.failed != 0, id, deadline);
}

}  // namespace comm::detail::nccl
