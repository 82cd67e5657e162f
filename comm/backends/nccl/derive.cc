#include "comm/backends/nccl/derive.h"

#include <utility>

#include "comm/backends/nccl/connect.h"
#include "comm/backends/nccl/entry.h"
#include "comm/backends/nccl/native.h"

namespace comm::detail::nccl {

std::shared_ptr<State> part_of(const State& parent, std::uint64_t id) {
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
  return child;
}

Result<std::shared_ptr<State>> finish(std::shared_ptr<State> child, Status done,
                                      const State& parent, Operation operation,
                                      const Deadline& deadline) {
  if (child->log == nullptr) child->open_log();
  child->maker.store(to_string(operation));
  if (done.ok()) done = child->allocate();
  if (done.ok()) done = child->start_watchdog();
  if (done.ok()) done = child->warm_up(deadline);
  if (done.ok())
    child->say(LogLevel::info, "made by %s of rank %d of %d", to_string(operation), parent.rank,
               parent.world_size);
  child->maker.store(nullptr);
  if (done.ok()) return child;
  done = child->located(std::move(done), operation);
  if (child->is_open()) child->poison(done.copy()).ignore();
  child->close().ignore();
  return done;
}

Result<std::shared_ptr<State>> wrap(State& parent, ncclComm_t native, Operation operation,
                                    std::uint64_t id, const Deadline& deadline) {
  std::shared_ptr<State> child = part_of(parent, id);
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
  return finish(std::move(child), std::move(done), parent, operation, deadline);
}

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

}  // namespace comm::detail::nccl
