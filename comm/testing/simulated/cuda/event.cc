// Events of the runtime API.

#include <cuda_runtime_api.h>

#include <utility>

#include "comm/testing/simulated/core/entry.h"
#include "comm/testing/simulated/report.h"

using namespace comm::simulated;
using namespace comm::simulated::detail;

namespace {

cudaError_t create(const char* call, cudaEvent_t* handle, unsigned flags) {
  return cuda_call(call, [&](const FaultDecision&) {
    constexpr unsigned kKnown =
        cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
    if (handle == nullptr || (flags & ~kKnown) != 0) return cudaErrorInvalidValue;
    const Lock lock(machine().mutex);
    Event* event = new Event;
    event->device = current_device();
    event->flags = flags;
    machine().events.insert(event);
    *handle = reinterpret_cast<cudaEvent_t>(event);
    return cudaSuccess;
  });
}

cudaError_t record_on(const char* call, cudaEvent_t handle, cudaStream_t stream) {
  return cuda_call(call, [&](const FaultDecision&) -> cudaError_t {
    Lock lock(machine().mutex);
    Event* event = resolve(lock, handle, call);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    Stream* on = resolve(lock, stream, call);
    if (on == nullptr) return cudaErrorInvalidResourceHandle;
    if (event->device != on->device) return cudaErrorInvalidResourceHandle;
    return record(lock, event, on);
  });
}

// What stands in the way of a query: a captured event, or a capture that forbids the call.
cudaError_t check_query(Lock& lock, Event* event) {
  if (event->capture != nullptr) {
    event->capture->invalid = true;
    return cudaErrorCapturedEvent;
  }
  return check_unsafe(lock);
}

cudaError_t sticky(const Event& event) {
  return static_cast<cudaError_t>(
      machine().devices[static_cast<std::size_t>(event.device)].sticky_error);
}

}  // namespace

extern "C" {

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return create("cudaEventCreate", event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return create("cudaEventCreateWithFlags", event, flags);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return record_on("cudaEventRecord", event, stream);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return record_on("cudaEventRecordWithFlags", event, stream);
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return cuda_call("cudaEventQuery", [&](const FaultDecision&) -> cudaError_t {
    Lock lock(machine().mutex);
    Event* event = resolve(lock, handle, "cudaEventQuery");
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    const cudaError_t error = check_query(lock, event);
    if (error != cudaSuccess) return error;
    const OperationPtr recorded = event->recorded;
    if (recorded != nullptr && !poll(lock, recorded, &event->polls)) return cudaErrorNotReady;
    return sticky(*event);
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return cuda_call("cudaEventSynchronize", [&](const FaultDecision&) -> cudaError_t {
    Lock lock(machine().mutex);
    Event* event = resolve(lock, handle, "cudaEventSynchronize");
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    const cudaError_t error = check_query(lock, event);
    if (error != cudaSuccess) return error;
    const std::size_t device = static_cast<std::size_t>(event->device);
    if (const OperationPtr recorded = event->recorded) wait_for(lock, recorded);
    return static_cast<cudaError_t>(machine().devices[device].sticky_error);
  });
}

// Pending waits on it stay in force: they hold the marker, not the event.
cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return cuda_call("cudaEventDestroy", [&](const FaultDecision&) -> cudaError_t {
    Lock lock(machine().mutex);
    Event* event = resolve(lock, handle, "cudaEventDestroy");
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    machine().events.erase(event);
    delete event;
    return cudaSuccess;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  return cuda_call("cudaEventElapsedTime", [&](const FaultDecision&) -> cudaError_t {
    Lock lock(machine().mutex);
    const Event* first = resolve(lock, from, "cudaEventElapsedTime");
    const Event* second = resolve(lock, to, "cudaEventElapsedTime");
    if (first == nullptr || second == nullptr || first->recorded == nullptr ||
        second->recorded == nullptr ||
        ((first->flags | second->flags) & cudaEventDisableTiming) != 0) {
      return cudaErrorInvalidResourceHandle;
    }
    if (!first->recorded->done() || !second->recorded->done()) return cudaErrorNotReady;
    *milliseconds = static_cast<float>(second->recorded->done_ns - first->recorded->done_ns) / 1e6F;
    return cudaSuccess;
  });
}

}  // extern "C"
