#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>

#include "comm/backends/nccl/native.h"
#include "comm/backends/nccl/state.h"

namespace comm::detail::nccl {

Status State::error(StatusCode code, int native, Operation operation, const char* format,
                    ...) const {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  const std::uint64_t sequence = collectives() + messages.load(std::memory_order_relaxed);
  const char* const making = operation == Operation::attempt_reconnect ? maker.load() : nullptr;
  return make_error(code, native, "%s on rank %d of %d (GPU %d, epoch %llu, seq %llu): %s",
                    making != nullptr ? making : to_string(operation), rank, world_size, device,
                    static_cast<unsigned long long>(epoch.load()),
                    static_cast<unsigned long long>(sequence), text);
}

Status State::cuda_error(cudaError_t error_code, Operation operation, const char* call) const {
  return error(StatusCode::cuda, static_cast<int>(error_code), operation, "%s failed: %s (%s)",
               call, cudaGetErrorString(error_code), cudaGetErrorName(error_code));
}

Status State::nccl_error(ncclResult_t result, Operation operation, const char* call,
                         Peers peers) const {
  // NCCL keeps one text for the whole process, which any thread may overwrite: copied at once.
  char last[256] = "";
  if (const char* text = ncclGetLastError(nullptr); text != nullptr)
    std::snprintf(last, sizeof last, "%s", text);
  last[std::strcspn(last, "\n")] = '\0';
  char to[24] = "";
  char from[24] = "";
  if (peers.to >= 0) std::snprintf(to, sizeof to, " to rank %d", peers.to);
  if (peers.from >= 0) std::snprintf(from, sizeof from, " from rank %d", peers.from);
  return error(StatusCode::nccl, static_cast<int>(result), operation,
               "%s%s%s failed: %s (%d)%s%s; NCCL_DEBUG=WARN makes NCCL say more", call, to, from,
               name_of(result), static_cast<int>(result),
               last[0] != '\0' ? "; NCCL's last message, which may be unrelated: " : "", last);
}

Status State::located(Status failure, Operation operation) const {
  if (failure.ok() || std::strstr(failure.message(), " (GPU ") != nullptr) return failure;
  return error(failure.code(), failure.native_code(), operation, "%s", failure.message());
}

Status State::first_cause(bool wait) const {
  told.remember(epoch.load());
  const std::string names = roll.names(wait && !is_watchdog());
  const std::lock_guard<std::mutex> guard(cause_mutex);
  if (cause.ok())
    return make_error(StatusCode::unhealthy, 0, "rank %d of %d is closed", rank, world_size);
  if (names.empty() || cause.code() == StatusCode::peer_lost) return cause.copy();
  return make_error(cause.code(), cause.native_code(), "%s. %s", cause.message(), names.c_str());
}

Status State::refuse(Operation operation, bool wait) const {
  if ((gate.load(std::memory_order_acquire) & kLeftOut) != 0)
    return make_error(StatusCode::invalid_argument, 0,
                      "%s: this rank is in no communicator; split was given kNoColor",
                      to_string(operation));
  told.remember(epoch.load());
  const std::string names = roll.names(wait && !is_watchdog());
  // Printed from where it lies: engines ask again and again.
  const std::lock_guard<std::mutex> guard(cause_mutex);
  const bool is_more_known = !names.empty() && cause.code() != StatusCode::peer_lost;
  return error(StatusCode::unhealthy, cause.native_code(), operation,
               "refused, the communicator is unhealthy. First cause: %s%s%s. %s",
               cause.ok() ? "it was closed, or is being reconnected" : cause.message(),
               is_more_known ? ". " : "", is_more_known ? names.c_str() : "",
               is_derived ? "Reconnect the communicator it was made from, then make it again"
                          : "Call attempt_reconnect on every rank");
}

Status State::poison(Status failure) {
  told.remember(epoch.load());
  {
    const std::lock_guard<std::mutex> guard(cause_mutex);
    if (cause.ok()) cause = failure.copy();
  }
  const std::uint32_t before = gate.fetch_or(kUnhealthy, std::memory_order_acq_rel);
  if ((before & kUnhealthy) == 0) {
    if (channel != nullptr) channel->notify(failure.message());
    say(LogLevel::error, "unhealthy: %s", failure.message());
    watchdog_wakes.notify_all();  // It aborts, so that kernels which wait for a peer end.
  }
  return failure;
}

Status State::poison_and_name(Status failure) {
  Status same = poison(std::move(failure));
  Status first = first_cause(true);
  return first.ok() ? std::move(same) : std::move(first);
}

void State::say(LogLevel level, const char* format, ...) const {
  if (log == nullptr || !log->is_on(level)) return;
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  log->set_epoch(epoch.load());
  log->say(level, "%s", text);
}

Status State::ask_nccl(Operation operation) {
  const ncclComm_t native = comm.load(std::memory_order_relaxed);
  if (native == nullptr) return {};
  ncclResult_t result = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(native, &result);
  if (asked != ncclSuccess) return poison(nccl_error(asked, operation, "ncclCommGetAsyncError"));
  if (result == ncclSuccess || result == ncclInProgress) return {};
  return poison(nccl_error(result, operation, "an operation under way"));
}

OutOfBand::Departure State::missed_departure() const {
  // Of a part only its own ranks' counts would say anything, and those are not told.
  if (channel == nullptr || is_derived || ignores_channel || channel->departed_rank() < 0)
    return {};
  const OutOfBand::Departure gone = channel->departure();
  return collectives() > gone.done ? gone : OutOfBand::Departure();
}

Status State::look_for_the_departed() {
  const OutOfBand::Departure gone = missed_departure();
  if (gone.rank < 0) return {};
  return poison(
      error(StatusCode::peer_lost, 0, lock->operation(),
            "rank %d has left after %llu operations of all ranks; this rank has submitted "
            "%llu, so the last cannot complete",
            gone.rank, static_cast<unsigned long long>(gone.done),
            static_cast<unsigned long long>(collectives())));
}

Status State::look(Operation operation) {
  // No waiting for names here: others ask by this whether all is well.
  if (!is_open()) return first_cause();
  if (channel != nullptr && !ignores_channel) {
    Status heard = channel->check();
    if (!heard.ok())
      return poison(error(heard.code(), heard.native_code(), operation, "%s", heard.message()));
  }
  Status needed = look_for_the_departed();
  if (!needed.ok()) return needed;
  // A thread inside NCCL asks by itself; here nobody may wait for it.
  if (!lock->try_lock(static_cast<const HotState*>(this))) return {};
  Status asked = ask_nccl(operation);
  lock->unlock();
  return asked;
}

}  // namespace comm::detail::nccl
