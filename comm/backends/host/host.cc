#include "comm/backends/host.h"

#include <unistd.h>

#include <utility>

#include "comm/backends/host/state.h"

namespace comm {

namespace host = detail::host;

Result<Host> Host::create(const Config& config) {
  LaunchConfig launch;
  if (config.launch.has_value()) {
    launch = *config.launch;
  } else {
    Result<LaunchConfig> found = LaunchConfig::from_env();
    if (!found.ok()) return std::move(found).status();
    launch = std::move(*found);
  }
  auto state = std::make_unique<host::State>();
  state->config = config;
  state->config.log_levels = detail::levels_or_environment(
      config.log_levels.has_value() ? &*config.log_levels : nullptr, config.log);
  Result<std::unique_ptr<host::Team>> team = host::start(state->config, launch);
  if (!team.ok()) return std::move(team).status();
  state->set_team(std::move(*team));
  state->log->say(LogLevel::info, "made: process %d", static_cast<int>(::getpid()));
  return Host(std::move(state));
}

Host::Host(std::unique_ptr<host::State> state)
    : rank_(state->team->rank()), world_size_(state->team->size()), state_(state.release()) {}

Host::~Host() {
  delete state_;
}

std::uint64_t Host::epoch() const {
  return state_ == nullptr ? 0 : state_->team->world().epoch;
}

Status Host::unusable(Operation operation) const {
  if (state_ != nullptr) return state_->team->refusal(operation);
  return make_error(
      StatusCode::invalid_argument, 0,
      "%s: refused, since this handle has no communicator: it was moved from, or split "
      "gave this rank kNoColor",
      to_string(operation));
}

template <class Op>
Status Host::submit(const Op& op) {
  if (state_ == nullptr || !state_->team->is_usable()) [[unlikely]]
    return unusable(Op::operation);
  state_->team->count();
  if (state_->group.is_open()) [[unlikely]] {
    if constexpr (std::same_as<Op, ops::AllToAllV>)
      state_->group.add(op, world_size_);
    else
      state_->group.add(op);
    return {};
  }
  return host::perform(state_->setting(), op);
}

Status Host::all_reduce(const ops::AllReduce& op) {
  return submit(op);
}
Status Host::all_gather(const ops::AllGather& op) {
  return submit(op);
}
Status Host::reduce_scatter(const ops::ReduceScatter& op) {
  return submit(op);
}
Status Host::broadcast(const ops::Broadcast& op) {
  return submit(op);
}
Status Host::reduce(const ops::Reduce& op) {
  return submit(op);
}
Status Host::gather(const ops::Gather& op) {
  return submit(op);
}
Status Host::scatter(const ops::Scatter& op) {
  return submit(op);
}
Status Host::all_to_all(const ops::AllToAll& op) {
  return submit(op);
}
Status Host::all_to_all_v(const ops::AllToAllV& op) {
  return submit(op);
}
Status Host::send_to(const ops::SendTo& op) {
  return submit(op);
}
Status Host::recv_from(const ops::RecvFrom& op) {
  return submit(op);
}
Status Host::send_recv(const ops::SendRecv& op) {
  return submit(op);
}
Status Host::barrier(const ops::Barrier& op) {
  return submit(op);
}

Status Host::recv_command_u32(const ops::RecvCommandU32& op) {
  if (state_ != nullptr && rank_ == op.root) return Status(detail::kRootReceivesNoCommand);
  return submit(op);
}

namespace {

/// What cannot be done later, when the group ends, and so not in a group.
Status not_in_a_group(host::State& state, Operation operation) {
  if (!state.group.is_open()) return {};
  Status refused = make_error(StatusCode::invalid_argument, 0,
                              "%s on %s: not possible between group_start and group_end",
                              to_string(operation), state.team->where().text);
  state.group.spoil(refused);
  return refused;
}

}  // namespace

Status Host::barrier_wait(const ops::BarrierWait& op) {
  if (state_ == nullptr || !state_->team->is_usable()) return unusable(Operation::barrier_wait);
  Status bad = not_in_a_group(*state_, Operation::barrier_wait);
  if (!bad.ok()) return bad;
  state_->team->count();
  host::Setting on = state_->setting();
  on.timeout_ns = op.timeout.nanoseconds_or(on.timeout_ns);
  return host::barrier(on, Operation::barrier_wait);
}

Status Host::synchronize(const ops::Synchronize&) {
  // Everything submitted has ended; what is left to tell is whether peers are still there.
  if (state_ == nullptr || !state_->team->is_healthy()) return unusable(Operation::synchronize);
  return {};
}

Status Host::group_start(const ops::GroupStart&) {
  if (state_ == nullptr || !state_->team->is_usable()) return unusable(Operation::group_start);
  state_->group.open();
  return {};
}

Status Host::group_end(const ops::GroupEnd&) {
  if (state_ == nullptr) return unusable(Operation::group_end);
  Status usable = state_->team->is_usable() ? Status() : unusable(Operation::group_end);
  return state_->group.close(state_->setting(), std::move(usable));
}

Result<void*> Host::symmetric_alloc(const ops::SymmetricAlloc& op) {
  if (state_ == nullptr || !state_->team->is_usable()) return unusable(Operation::symmetric_alloc);
  Status bad = not_in_a_group(*state_, Operation::symmetric_alloc);
  if (!bad.ok()) return bad;
  state_->team->count();
  return state_->symmetric.allocate(*state_->team, op.bytes, state_->team->world().timeout_ns);
}

Status Host::symmetric_free(const ops::SymmetricFree& op) {
  // Also after a failure: memory has to be given back.
  if (state_ == nullptr || !state_->team->world().fork_guard.is_original())
    return unusable(Operation::symmetric_free);
  Status bad = not_in_a_group(*state_, Operation::symmetric_free);
  if (!bad.ok()) return bad;
  return state_->symmetric.release(*state_->team, op.buffer);
}

namespace {

Result<std::unique_ptr<host::State>> divided(const host::State& from,
                                             Result<std::unique_ptr<host::Team>> team) {
  if (!team.ok()) return std::move(team).status();
  if (*team == nullptr) return std::unique_ptr<host::State>();
  auto state = std::make_unique<host::State>();
  state->config = from.config;
  state->is_divided = true;
  state->set_team(std::move(*team));
  state->log->say(LogLevel::info, "made of rank %d of %d", from.team->rank(), from.team->size());
  return state;
}

}  // namespace

Result<Host> Host::split(const ops::Split& op) {
  if (state_ == nullptr || !state_->team->is_usable()) return unusable(Operation::split);
  Status bad = not_in_a_group(*state_, Operation::split);
  if (!bad.ok()) return bad;
  state_->team->count();
  Result<std::unique_ptr<host::State>> part = divided(
      *state_, host::split(*state_->team, op.color, op.key, state_->team->world().timeout_ns));
  if (!part.ok()) return std::move(part).status();
  return *part == nullptr ? Host() : Host(std::move(*part));
}

Result<Host> Host::shrink(const ops::Shrink& op) {
  if (state_ == nullptr || !state_->team->world().fork_guard.is_original())
    return unusable(Operation::shrink);
  Status bad = not_in_a_group(*state_, Operation::shrink);
  if (!bad.ok()) return bad;
  Result<std::unique_ptr<host::State>> rest =
      divided(*state_, host::shrink(*state_->team, op.excluded, op.excluded_count,
                                    state_->team->world().timeout_ns));
  if (!rest.ok()) return std::move(rest).status();
  return Host(std::move(*rest));
}

bool Host::is_healthy() const {
  return state_ != nullptr && state_->shared_team()->is_healthy();
}

Status Host::abort(const ops::Abort&) {
  if (state_ == nullptr) return unusable(Operation::abort);
  const std::shared_ptr<host::Team> team = state_->shared_team();
  if (!team->world().fork_guard.is_original()) return team->refusal(Operation::abort);
  team->fail(Operation::abort,
             make_error(StatusCode::unhealthy, 0, "%s called abort", team->name(team->rank()).text))
      .ignore();
  return {};
}

Status Host::attempt_reconnect(const ops::AttemptReconnect&) {
  if (state_ == nullptr) return unusable(Operation::attempt_reconnect);
  const std::shared_ptr<host::Team> seen = state_->shared_team();
  if (!seen->world().fork_guard.is_original()) return seen->refusal(Operation::attempt_reconnect);
  const std::lock_guard<std::mutex> lock(state_->reconnecting);
  if (state_->is_divided)
    return make_error(StatusCode::unsupported, 0,
                      "attempt_reconnect on rank %d of %d: this communicator was made by split or "
                      "shrink; reconnect the one it was made of, and divide it again",
                      rank_, world_size_);
  // Another thread may have done it: meanwhile, or before this one came with the same failure. A
  // rank that knows of no failure takes part all the same: others may be waiting for it.
  const std::shared_ptr<host::Team> now = state_->shared_team();
  const bool was_repaired = state_->told->take_earlier_than(now->world().epoch);
  if (now != seen || (was_repaired && now->is_healthy())) return {};
  state_->log->say(LogLevel::warn, "reconnects");
  Status kept = state_->symmetric.retire(*seen);
  if (!kept.ok()) return kept;
  Result<std::unique_ptr<host::Team>> team = host::restart(state_->config, *seen);
  if (!team.ok()) {
    state_->log->say(LogLevel::error, "could not reconnect: %s", team.message());
    return std::move(team).status();
  }
  state_->group = host::Group();
  state_->symmetric.start_anew();
  (void)state_->told->take_earlier_than((*team)->world().epoch);
  state_->set_team(std::move(*team));
  state_->log->say(LogLevel::warn, "reconnected");
  return {};
}

}  // namespace comm
