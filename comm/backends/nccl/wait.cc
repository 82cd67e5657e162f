#include <algorithm>

#include "comm/backends/nccl/state.h"

namespace comm::detail::nccl {
namespace {

/// How long what a rank did before it left may take to arrive.
constexpr std::chrono::seconds kAfterDeparture{1};

}  // namespace

Status State::can_wait(cudaStream_t s, Operation operation) const {
  if (!is_open()) return refuse(operation, true);
  if (open_groups() > 0)
    return error(StatusCode::invalid_argument, 0, operation,
                 "it would wait for what is submitted only when the open group ends; end the group "
                 "first, or use the form that does not wait");
  Capture capture;
  const cudaError_t asked = capture_of(s, &capture);
  if (asked != cudaSuccess) {
    (void)cudaGetLastError();
    return cuda_error(asked, operation, "cudaStreamGetCaptureInfo");
  }
  if (capture.is_active)
    return error(
        StatusCode::invalid_argument, 0, operation,
        "the stream is being captured into a CUDA graph, which only records: waiting would "
        "not end; capture the form that does not wait");
  return {};
}

Status State::completed(Operation operation) {
  // An abort, or NCCL itself after an error, ends kernels too: their end alone proves nothing.
  if (!is_open()) return first_cause(true);
  if (!lock->try_lock(static_cast<const HotState*>(this))) return {};
  Status asked = ask_nccl(operation);
  lock->unlock();
  return asked;
}

Status State::wait_for(cudaEvent_t event, Operation operation, const Deadline& deadline) {
  Pause pause(config.waiting);
  const RelaxedCapture undisturbed;
  std::chrono::nanoseconds departure{0};  // When it was noticed.
  std::chrono::nanoseconds say_after = config.slow_wait;
  for (;;) {
    const cudaError_t found = cudaEventQuery(event);
    if (found == cudaSuccess) return completed(operation);
    if (found != cudaErrorNotReady) return poison(cuda_error(found, operation, "cudaEventQuery"));
    (void)cudaGetLastError();
    if (deadline.passed())
      return poison_and_name(
          error(StatusCode::timeout, 0, operation,
                "not complete after %lld ms; the last operation submitted on this GPU was "
                "%s. A rank may be missing, or may have called another operation",
                deadline.length_ms(), to_string(lock->operation())));
    // The watchdog looks at the channel, too; what it finds is seen without asking again.
    if (!is_open()) return first_cause(true);
    if (!pause.once_more()) continue;
    if (!deadline.is_never() && deadline.waited() > say_after) {
      say_after = 2 * deadline.waited();
      slow.operation.store(operation);
      slow.waited_ms.store(std::max<std::int64_t>(deadline.waited().count() / 1'000'000, 1));
    }
    // What a rank did before it left in good order may still be on its way here; a command that is
    // waited for without a deadline would not come for ever after.
    if (deadline.is_never() && channel != nullptr && channel->departed_rank() >= 0) {
      if (departure.count() == 0) departure = deadline.waited();
      if (deadline.waited() - departure > kAfterDeparture)
        return poison(error(StatusCode::peer_lost, 0, operation,
                            "rank %d has left: nothing more can come", channel->departed_rank()));
    }
    Status looked = look(operation);
    if (!looked.ok()) return is_open() ? std::move(looked) : first_cause(true);
  }
}

Status State::wait_for_stream(cudaStream_t s, Operation operation, const Deadline& deadline) {
  const DeviceGuard current(device);
  const PooledEvent event(events, false);
  cudaError_t done = event.error();
  if (done == cudaSuccess) done = cudaEventRecord(event.get(), s);
  if (done != cudaSuccess) return poison(cuda_error(done, operation, "cudaEventRecord"));
  return wait_for(event.get(), operation, deadline);
}

}  // namespace comm::detail::nccl
