#include "comm/backends/nccl/goodbye.h"
#include "comm/backends/nccl/group.h"
#include "comm/backends/nccl/native.h"
#include "comm/backends/nccl/state.h"

namespace comm::detail::nccl {
namespace {

/// How long an abort waits for a call that is about to leave NCCL by itself.
constexpr std::chrono::milliseconds kGrace{50};

constexpr const char* kStuck =
    "NCCL does not let go of the communicator after %lld ms. It waits for each CUDA graph that "
    "captured an operation of it: destroy those graphs (cudaGraphExecDestroy, cudaGraphDestroy) "
    "first. Its memory stays allocated until they are";

/// The runtime is gone when static objects are destroyed late: then nothing may be called any more.
bool driver_is_gone() noexcept {
  int device = 0;
  return cudaGetDevice(&device) == cudaErrorCudartUnloading;
}

}  // namespace

bool State::is_stuck(const Deadline& deadline) {
  Pause pause;
  while (stuck != nullptr && !stuck->load()) {
    if (deadline.passed()) return true;
    pause.once_more();
  }
  stuck = nullptr;
  return false;
}

Status State::abort_native() {
  const Deadline deadline(config.abort_timeout);
  const std::unique_lock<TimedMutex> only_one(ending, deadline.when());
  // The watchdog comes again; whoever needs the abort to be over has time for it.
  const Deadline patience(is_watchdog() ? std::chrono::milliseconds(0) : config.abort_timeout);
  if (!only_one.owns_lock() || is_stuck(patience))
    return error(StatusCode::timeout, 0, Operation::abort, kStuck, deadline.length_ms());
  if (comm.load() == nullptr) return {};

  // A thread between its look at the gate and NCCL has to be through; one that is inside stays.
  const Deadline grace(kGrace);
  bool locked = lock_until(Operation::abort, grace);
  const void* owner = group_owner.load();
  if (locked && owner != nullptr && owner != this_thread()) {
    // Its group holds what was submitted; NCCL must not lose the communicator under it.
    lock->unlock();
    return error(StatusCode::timeout, 0, Operation::abort,
                 "another thread has a group open; the communicator is aborted when that ends");
  }
  const ncclComm_t native = comm.exchange(nullptr);
  say(LogLevel::info, "aborts NCCL's communicator");
  {
    const std::lock_guard<std::mutex> guard(tables);
    for (RegistrationEntry& entry : registrations) entry.native = nullptr;
    for (SymmetricEntry& entry : symmetric) entry.window = nullptr;
  }
  const Parted went = part_by_abort(native, device, config.abort_timeout, &stuck);
  if (locked) lock->unlock();
  if (went != Parted::stuck) return {};
  return error(StatusCode::timeout, 0, Operation::abort, kStuck, deadline.length_ms());
}

Status abort(State& state) {
  if ((state.gate.load() & kLeftOut) != 0 || state.comm.load() == nullptr) return {};
  if (state.is_open())
    state
        .poison(state.error(StatusCode::unhealthy, 0, Operation::abort, "rank %d called abort",
                            state.rank))
        .ignore();
  // A group of this thread goes first: NCCL counts it by thread and would hold it open for ever.
  (void)close_own_group(state);
  return state.abort_native();
}

Status State::close() {
  if (is_closed) return {};
  is_closed = true;
  stop_watchdog();
  if ((gate.load() & kLeftOut) != 0) return {};
  if (driver_is_gone()) {
    comm.store(nullptr);
    events.close(true);
    return {};
  }

  (void)close_own_group(*this);
  // Those that go on learn what this rank never came to. An unhealthy one has told them already.
  if (!is_derived && channel != nullptr) channel->conclude(collectives());
  const bool in_order =
      is_open() && (channel == nullptr || ignores_channel || channel->check().ok());
  {
    const std::lock_guard<std::mutex> guard(cause_mutex);
    if (cause.ok()) cause = make_error(StatusCode::unhealthy, 0, "it was closed");
  }
  gate.fetch_or(kUnhealthy);
  say(LogLevel::info, in_order ? "closes" : "closes by an abort: it is unhealthy");
  Status outcome = in_order ? close_in_order() : abort_native();
  release_memory();
  // The others need not wait until tickets are dropped. Parts of this communicator still listen.
  if (channel.use_count() == 1) channel->leave();
  return outcome;
}

bool State::drain(const Deadline& deadline) {
  const DeviceGuard current(device);
  const RelaxedCapture undisturbed;
  const auto is_idle = [&] {
    Capture capture;
    if (stream != nullptr && capture_of(stream, &capture) == cudaSuccess && !capture.is_active &&
        cudaStreamQuery(stream) == cudaErrorNotReady) {
      (void)cudaGetLastError();
      return false;
    }
    return receive[0].is_idle() && word[0].is_idle();
  };
  Pause pause(config.waiting);
  while (!is_idle()) {
    if (deadline.passed()) return false;
    if (!pause.once_more() || channel == nullptr || ignores_channel) continue;
    if (!channel->check().ok() || missed_departure().rank >= 0) return false;
  }
  return true;
}

Status State::close_in_order() {
  const Deadline deadline(config.close_timeout);
  // NCCL is not to be told that memory is free while kernels still use it.
  const bool is_idle = drain(deadline);
  // Those that have yet to come to it would wait for a rank that has given it up.
  if (!is_idle && channel != nullptr && !ignores_channel && missed_departure().rank < 0)
    channel->notify(error(StatusCode::timeout, 0, Operation::abort,
                          "closed while the last operation that it submitted, %s, was under way",
                          to_string(lock->operation()))
                        .message());
  const bool locked = lock_until(Operation::abort, deadline);
  Parting parting{comm.exchange(nullptr), device, {}, {}};
  for (const RegistrationEntry& entry : registrations)
    if (entry.native != nullptr) parting.registrations.push_back(entry.native);
  for (const SymmetricEntry& entry : symmetric)
    if (entry.window != nullptr) parting.windows.push_back(entry.window);
  ncclResult_t result = ncclSuccess;
  Parted parted = Parted::in_order;
  if (parting.comm != nullptr)
    parted = is_idle ? part_in_order(parting, deadline, config.abort_timeout, &result, &stuck)
                     : part_by_abort(parting.comm, device, config.abort_timeout, &stuck);
  if (locked) lock->unlock();
  if (parted == Parted::in_order) return {};
  if (parted == Parted::stuck)
    return error(StatusCode::timeout, 0, Operation::abort, kStuck, deadline.length_ms());
  if (result != ncclSuccess) return nccl_error(result, Operation::abort, "closing");
  return error(
      StatusCode::timeout, 0, Operation::abort,
      "what is queued was not done within %lld ms, or a rank that it needs is gone, so the "
      "communicator was aborted",
      deadline.length_ms());
}

void State::release_memory() noexcept {
  events.close(false);
  // What NCCL still holds stays: freeing it could wait for kernels that never end.
  if (is_stuck(Deadline(std::chrono::milliseconds(0)))) return;
  const DeviceGuard current(device);
  for (Scratch& scratch : receive) scratch.free();
  for (Scratch& scratch : word) scratch.free();
  for (const SymmetricEntry& entry : symmetric) (void)mem_free(entry.memory);
  symmetric.clear();
  if (stream != nullptr) (void)cudaStreamDestroy(stream);
  stream = nullptr;
}

State::~State() {
  Status closed = close();
  if (!closed.ok()) say(LogLevel::error, "%s", closed.message());
}

}  // namespace comm::detail::nccl
