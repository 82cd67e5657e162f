#include "comm/backends/nccl/group.h"

#include "comm/backends/nccl/native.h"

namespace comm::detail::nccl {
namespace {

// NCCL's own count is per thread and cannot be asked for.
thread_local int groups_of_this_thread = 0;

/// Forgets that a group is open; who waits for it may go on.
void forget(State& state) noexcept {
  state.group_depth = 0;
  --groups_of_this_thread;
  state.gate.fetch_and(~std::uint32_t{kGroup}, std::memory_order_release);
  state.group_owner.store(nullptr, std::memory_order_release);
}

Status own_group(State& state) {
  const Deadline deadline = state.collective_deadline();
  Pause pause;
  for (;;) {
    const void* nobody = nullptr;
    if (state.group_owner.compare_exchange_strong(nobody, this_thread())) return {};
    if (!state.is_open()) return state.refuse(Operation::group_start);
    if (deadline.passed())
      return state.poison(state.error(StatusCode::timeout, 0, Operation::group_start,
                                      "another thread has had a group open for %lld ms",
                                      deadline.length_ms()));
    pause.once_more();
  }
}

}  // namespace

int open_groups() noexcept {
  return groups_of_this_thread;
}

const void* this_thread() noexcept {
  thread_local char here;
  return &here;
}

Status group_start(State& state) {
  if (!state.is_open()) return state.refuse(Operation::group_start);
  if (state.group_owner.load(std::memory_order_acquire) == this_thread()) {
    ++state.group_depth;
    return {};
  }
  Status owned = own_group(state);
  if (!owned.ok()) return owned;
  const ncclResult_t result = ncclGroupStart();
  if (result != ncclSuccess) {
    state.group_owner.store(nullptr, std::memory_order_release);
    return state.poison(state.nccl_error(result, Operation::group_start, "ncclGroupStart"));
  }
  state.gate.fetch_or(kGroup, std::memory_order_release);
  state.group_depth = 1;
  state.group_error = Status();
  ++groups_of_this_thread;
  return {};
}

Status group_end(State& state) {
  if (state.group_owner.load(std::memory_order_acquire) != this_thread())
    return state.is_open()
               ? state.error(StatusCode::invalid_argument, 0, Operation::group_end,
                             "this thread has no group open; each group_end needs its group_start, "
                             "on the same thread")
               : state.refuse(Operation::group_end);
  if (--state.group_depth > 0) return {};

  const Deadline deadline = state.collective_deadline();
  const bool locked = state.lock_until(Operation::group_end, deadline);
  const ncclComm_t native = state.comm.load();
  const ncclResult_t result = ncclGroupEnd();
  Status ended;
  if (!state.is_open()) {
    ended = state.first_cause(true);
  } else if (result != ncclSuccess && result != ncclInProgress) {
    ended = state.poison(state.nccl_error(result, Operation::group_end, "ncclGroupEnd"));
  } else if (result == ncclInProgress || (state.gate.load() & kSettles) != 0) {
    state.gate.fetch_or(kSettles, std::memory_order_relaxed);
    ended = state.settle(native, Operation::group_end, deadline);
  }
  if (ended.ok() && state.word_in_group.is_used) {
    const Capture& capture = state.word_in_group.capture;
    const cudaError_t error =
        state.word[capture.is_active ? 1 : 0].end(state.word_in_group.stream, capture);
    if (error != cudaSuccess)
      ended = state.poison(state.cuda_error(error, Operation::group_end, "cudaEventRecord"));
  }
  state.word_in_group.is_used = false;
  if (locked) state.lock->unlock();
  forget(state);
  Status member = std::move(state.group_error);
  return member.ok() ? std::move(ended) : std::move(member);
}

bool close_own_group(State& state) noexcept {
  if (state.group_owner.load(std::memory_order_acquire) != this_thread()) return false;
  (void)ncclGroupEnd();
  forget(state);
  return true;
}

}  // namespace comm::detail::nccl
