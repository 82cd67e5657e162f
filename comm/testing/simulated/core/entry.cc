#include "comm/testing/simulated/core/entry.h"

#include <chrono>
#include <map>
#include <thread>

#include "comm/testing/simulated/core/exit.h"
#include "comm/testing/simulated/report.h"
#include "comm/testing/simulated/settings.h"

namespace comm::simulated::detail {
namespace {

// A thread's own default streams, one for each device it uses.
struct ThreadStreams {
  std::map<int, Stream*> of_device;

  ~ThreadStreams() {
    Lock lock(machine().mutex);
    for (const auto& [device, stream] : of_device) close_stream(lock, stream);
  }
};

Stream* thread_stream(Lock& lock, int device) {
  thread_local ThreadStreams streams;
  Stream*& stream = streams.of_device[device];
  if (stream == nullptr) stream = make_stream(lock, device, StreamKind::per_thread, 0, 0);
  return stream;
}

}  // namespace

int& current_device() {
  thread_local int device = 0;
  return device;
}

cudaError_t& last_error() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}

Stream* resolve(Lock& lock, cudaStream_t handle, const char* call) {
  const int device = current_device();
  if (handle == cudaStreamPerThread) return thread_stream(lock, device);
  if (handle == nullptr || handle == cudaStreamLegacy) {
    Stream*& legacy = machine().devices[static_cast<std::size_t>(device)].legacy;
    if (legacy == nullptr) legacy = make_stream(lock, device, StreamKind::legacy, 0, 0);
    return legacy;
  }
  Stream* stream = reinterpret_cast<Stream*>(handle);
  if (machine().streams.count(stream) != 0 && is_live(lock, stream)) return stream;
  report(Violation::stale_handle, "%s: %p is no stream, or one that was destroyed", call,
         static_cast<void*>(handle));
  return nullptr;
}

Event* resolve(Lock&, cudaEvent_t handle, const char* call) {
  Event* event = reinterpret_cast<Event*>(handle);
  if (machine().events.count(event) != 0) return event;
  report(Violation::stale_handle, "%s: %p is no event, or one that was destroyed", call,
         static_cast<void*>(handle));
  return nullptr;
}

cudaError_t begin_call(const char* call, FaultDecision* fault, bool needs_device) {
  watch_exit();
  const Settings now = settings();
  *fault = decide_fault(call, current_device());
  if (driver_unloaded()) return cudaErrorCudartUnloading;
  if (fault->is(FaultAction::fail)) return static_cast<cudaError_t>(fault->value);
  if (!needs_device) return cudaSuccess;
  if (!now.has_driver) return cudaErrorInsufficientDriver;
  if (now.devices == 0) return cudaErrorNoDevice;
  const Lock lock(machine().mutex);
  const Device& device = machine().devices[static_cast<std::size_t>(current_device())];
  return static_cast<cudaError_t>(device.sticky_error);
}

void apply(const FaultDecision& fault, Submission* submission) {
  if (fault.is(FaultAction::never_finish)) submission->never_finishes = true;
  if (fault.is(FaultAction::delay)) submission->delay_ms = static_cast<int>(fault.value);
  if (fault.is(FaultAction::async_error)) {
    // As a kernel that faults: the device answers with this error from then on.
    const int error = static_cast<int>(fault.value);
    submission->run = [run = std::move(submission->run), error](Operation& op) {
      if (run) run(op);
      const Lock lock(machine().mutex);
      machine().devices[static_cast<std::size_t>(op.stream->device)].sticky_error = error;
    };
  }
}

void apply(const FaultDecision& fault) {
  if (fault.is(FaultAction::delay)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(fault.value));
  }
}

}  // namespace comm::simulated::detail
