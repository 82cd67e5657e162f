#include <algorithm>
#include <utility>
#include <vector>

#include "comm/backends/nccl/connect.h"
#include "comm/backends/nccl/entry.h"
#include "comm/backends/nccl/native.h"

namespace comm::detail::nccl {
namespace {

/// A communicator around what NCCL made; `native` is null where this rank is in none.
Result<std::shared_ptr<State>> wrap(State& parent, ncclComm_t native, Operation operation,
                                    std::uint64_t id, const Deadline& deadline) {
  auto child = std::make_shared<State>();
  child->config = parent.config;
  child->channel = parent.channel;
  child->is_derived = true;
  child->ignores_channel = parent.ignores_channel || !parent.channel->check().ok();
  child->device = parent.device;
  child->lock = parent.lock;
  child->reduces_float8 = parent.reduces_float8;
  child->epoch.store(parent.epoch.load());
  child->agreement.id = id;
  child->agreement.epoch = parent.epoch.load();
  if (native == nullptr) {
    child->gate.store(kLeftOut);
    return child;
  }
  child->comm.store(native);
  child->gate.store(parent.gate.load() & kSettles);
  // Ranks are NCCL's to give: by key, then by old rank.
  ncclResult_t result = ncclCommUserRank(native, &child->rank);
  if (result == ncclSuccess) result = ncclCommCount(native, &child->world_size);
  Status done =
      result == ncclSuccess ? Status() : parent.nccl_error(result, operation, "ncclCommUserRank");
  child->open_log();
  if (done.ok()) done = child->allocate();
  if (done.ok()) done = child->start_watchdog();
  if (done.ok()) done = child->warm_up(deadline);
  if (done.ok())
    child->say(LogLevel::info, "made by %s of rank %d of %d", to_string(operation), parent.rank,
               parent.world_size);
  if (done.ok()) return child;
  if (child->is_open()) child->poison(done.copy()).ignore();
  child->close().ignore();
  return done;
}

Deadline deadline_of(const State& state) {
  return Deadline(state.config.launch->init_timeout);
}

}  // namespace

Result<std::shared_ptr<State>> split(State& state, const ops::Split& op) {
  Status can = state.can_wait(state.stream, Operation::split);
  if (!can.ok()) return can;
  const Deadline deadline = deadline_of(state);
  // NCCL splits only what has nothing under way. A communicator's operations end in the order of
  // their submission, so behind a barrier there is nothing left.
  Status idle = state.pass_barrier(Operation::split, deadline);
  if (!idle.ok()) return idle;
  ncclComm_t made = nullptr;
  {
    Entry call(state, Operation::split);
    if (!call.ok()) return call.take();
    const bool blocking = state.config.mode == NcclMode::blocking;
    Result<ncclComm_t> native =
        make_native(state, Operation::split, deadline, call.comm(), "ncclCommSplit",
                    [parent = call.comm(), op,
                     c = native_config(state.config, blocking)](ncclComm_t* child) mutable {
                      const int color = op.color == kNoColor ? NCCL_SPLIT_NOCOLOR : op.color;
                      return ncclCommSplit(parent, color, op.key, child, &c);
                    });
    // The other ranks may be in the new one already: this rank is out of step.
    if (!native.ok())
      return state.is_open() ? state.poison(std::move(native).status()) : state.first_cause();
    made = *native;
  }
  state.agreement.begin_epoch(state.epoch.load());
  const std::uint64_t id = state.agreement.id_of_part(0, static_cast<std::uint32_t>(op.color));
  return wrap(state, made, Operation::split, id, deadline);
}

Result<std::shared_ptr<State>> shrink(State& state, const ops::Shrink& op) {
  if ((state.gate.load() & kLeftOut) != 0) return state.refuse(Operation::shrink);
  if (!has_shrink())
    return state.error(StatusCode::unsupported, 0, Operation::shrink,
                       "NCCL %d cannot go on with fewer ranks; that needs 2.27.3 or later",
                       loaded_version());
  if (open_groups() > 0) return state.can_wait(state.stream, Operation::shrink);
  // After a failure NCCL ends what is under way first; that is what this is for.
  const bool failed = !state.is_open() || !state.look(Operation::shrink).ok();
  const Deadline deadline = deadline_of(state);
  std::vector<int> excluded(op.excluded, op.excluded + op.excluded_count);
  std::sort(excluded.begin(), excluded.end());
  excluded.erase(std::unique(excluded.begin(), excluded.end()), excluded.end());

  if (!state.lock_until(Operation::shrink, deadline))
    return state.error(StatusCode::timeout, 0, Operation::shrink,
                       "another thread is still inside NCCL on this GPU, in %s",
                       to_string(state.lock->operation()));
  const ncclComm_t parent = state.comm.load();
  if (parent == nullptr) {
    state.lock->unlock();
    return state.refuse(Operation::shrink);
  }
  const bool blocking = state.config.mode == NcclMode::blocking;
  Result<ncclComm_t> native = make_native(
      state, Operation::shrink, deadline, parent, "ncclCommShrink",
      [parent, excluded, failed,
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
  // Whoever is excluded does not count along: each set of ranks has a count of its own.
  std::uint64_t division = 1;
  for (const int rank : excluded) division = mix(division, static_cast<std::uint32_t>(rank));
  state.agreement.begin_epoch(state.epoch.load());
  const std::uint64_t id = state.agreement.id_of_part(division | 1, excluded.size());
  return wrap(state, *native, Operation::shrink, id, deadline);
}

}  // namespace comm::detail::nccl
