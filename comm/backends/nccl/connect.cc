#include "comm/backends/nccl/connect.h"

#include <cstring>
#include <span>
#include <utility>

#include "comm/backends/nccl/goodbye.h"
#include "comm/backends/nccl/native.h"

namespace comm::detail::nccl {

ncclConfig_t native_config(const NcclConfig& config, bool blocking) {
  ncclConfig_t native = NCCL_CONFIG_INITIALIZER;
  native.blocking = blocking ? 1 : 0;
  // Never one without the other: NCCL compares a lone minimum with "undefined" and refuses it.
  if (config.min_ctas > 0 && config.max_ctas > 0) {
    native.minCTAs = config.min_ctas;
    native.maxCTAs = config.max_ctas;
  }
  return native;
}

void discard(State& state, ncclComm_t native, bool in_good_order, const Deadline& deadline) {
  if (native == nullptr) return;
  ncclResult_t result = ncclSuccess;
  const Parted parted = in_good_order
                            ? part_in_order({native, state.device, {}, {}}, deadline,
                                            state.config.abort_timeout, &result)
                            : part_by_abort(native, state.device, state.config.abort_timeout);
  if (parted == Parted::stuck)
    state.say(LogLevel::warn,
              "a communicator that was given up is still inside NCCL; its memory stays allocated");
}

namespace {

/// For a communicator whose error is known already.
void wait_while_in_progress(ncclComm_t native, const Deadline& deadline) {
  Pause pause;
  ncclResult_t now = ncclInProgress;
  while (ncclCommGetAsyncError(native, &now) == ncclSuccess && now == ncclInProgress &&
         !deadline.passed())
    pause.once_more();
}

}  // namespace

Result<ncclComm_t> make_native(State& state, Operation operation, const Deadline& deadline,
                               ncclComm_t watched, const char* name,
                               std::function<ncclResult_t(ncclComm_t*)> call, bool even_failed) {
  // The slot outlives a call that is left to itself, and a worker of NCCL's that writes it late.
  auto slot = std::make_shared<Slot>();
  const int device = state.device;
  const Bounded went = run_bounded(deadline, [slot, device, call = std::move(call)] {
    (void)cudaSetDevice(device);
    slot->result = call(&slot->comm);
  });
  const Deadline to_give_up(state.config.abort_timeout);
  if (went == Bounded::not_started)
    return state.error(StatusCode::internal, 0, operation, "no thread could be started");
  if (went == Bounded::overdue) {
    // An abort is what gets the call out of NCCL, if NCCL has said what to abort.
    const ncclComm_t half_made = __atomic_load_n(&slot->comm, __ATOMIC_ACQUIRE);
    if (watched == nullptr) discard(state, half_made, false, to_give_up);
    return state.error(StatusCode::timeout, 0, operation,
                       "%s did not return within %lld ms; a rank may be missing", name,
                       deadline.length_ms());
  }
  if (slot->result != ncclSuccess && slot->result != ncclInProgress) {
    Status failed = state.nccl_error(slot->result, operation, name);
    discard(state, std::exchange(slot->comm, nullptr), false, to_give_up);
    return failed;
  }
  const bool watches_itself = watched == nullptr;
  if (watches_itself) watched = slot->comm;
  Status settled;
  if (even_failed && !watches_itself)
    wait_while_in_progress(watched, deadline);
  else if (watched != nullptr)
    settled = state.settle(watched, operation, deadline);
  if (settled.ok() && !watches_itself && slot->comm != nullptr)
    settled = state.settle(slot->comm, operation, deadline);
  if (settled.ok() && even_failed && slot->comm == nullptr)
    return state.error(StatusCode::nccl, 0, operation, "%s made no communicator", name);
  if (settled.ok()) return slot->comm;
  // What a parent still works on belongs to the parent, which the caller gives up.
  if (watches_itself) discard(state, slot->comm, false, to_give_up);
  return settled;
}

Status State::connect(const Deadline& deadline) {
  // A fresh id each time: NCCL's ids are for one communicator.
  ncclUniqueId id{};
  if (rank == 0) {
    const ncclResult_t result = ncclGetUniqueId(&id);
    if (result != ncclSuccess)
      return nccl_error(result, Operation::attempt_reconnect, "ncclGetUniqueId");
  }
  Result<Bytes> shared =
      channel->broadcast(std::as_bytes(std::span(&id, 1)), 0, deadline.remaining());
  if (!shared.ok()) return std::move(shared).status();
  if (shared->size() != sizeof id)
    return make_error(StatusCode::rendezvous, 0,
                      "rank 0 sent a NCCL id of %zu bytes, expected %zu: its NCCL differs",
                      shared->size(), sizeof id);
  std::memcpy(&id, shared->data(), sizeof id);
  return connect_as(id, Operation::attempt_reconnect, deadline);
}

Status State::connect_as(const ncclUniqueId& id, Operation operation, const Deadline& deadline) {
  const bool blocking = config.mode == NcclMode::blocking;
  const int size = world_size;
  const int me = rank;
  Result<ncclComm_t> first =
      make_native(*this, operation, deadline, nullptr, "ncclCommInitRankConfig",
                  [id, size, me, c = native_config(config, false)](ncclComm_t* made) mutable {
                    return ncclCommInitRankConfig(made, size, id, me, &c);
                  });
  if (!first.ok()) return std::move(first).status();
  if (!blocking) {
    gate.fetch_or(kSettles);
    comm.store(*first);
    return {};
  }
  Result<ncclComm_t> second =
      make_native(*this, operation, deadline, *first, "ncclCommSplit",
                  [parent = *first, me, c = native_config(config, true)](ncclComm_t* made) mutable {
                    return ncclCommSplit(parent, 0, me, made, &c);
                  });
  discard(*this, *first, second.ok(), Deadline(config.close_timeout));
  if (!second.ok()) return std::move(second).status();
  comm.store(*second);
  return {};
}

}  // namespace comm::detail::nccl
