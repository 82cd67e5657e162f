#pragma once

/// What every simulated CUDA call does before its work: it counts for the faults, and refuses when
/// there is no driver, no device, or no driver any more. Also the handles: a `cudaStream_t` is the
/// address of a Stream, checked against those alive, so that a stale one is reported and refused
/// instead of followed.

#include <cuda_runtime_api.h>

#include <utility>

#include "comm/testing/simulated/core/capture.h"
#include "comm/testing/simulated/core/machine.h"
#include "comm/testing/simulated/core/stream.h"
#include "comm/testing/simulated/faults.h"

namespace comm::simulated::detail {

/// The calling thread's device.
int& current_device();

/// The calling thread's cudaGetLastError.
cudaError_t& last_error();

/// The stream that the handle means on the calling thread (0, cudaStreamLegacy and
/// cudaStreamPerThread included), or null after a report.
Stream* resolve(Lock& lock, cudaStream_t handle, const char* call);

Event* resolve(Lock& lock, cudaEvent_t handle, const char* call);

/// The error that stands in the call's way, or cudaSuccess.
cudaError_t begin_call(const char* call, FaultDecision* fault, bool needs_device);

/// The fault's part in a submission.
void apply(const FaultDecision& fault, Submission* submission);

/// Sleeps where the fault says so, for calls that enqueue nothing.
void apply(const FaultDecision& fault);

/// Runs `body(const FaultDecision&) -> cudaError_t` as the named call.
template <class Body>
cudaError_t cuda_call(const char* call, Body&& body, bool needs_device = true,
                      bool enqueues = false) {
  FaultDecision fault;
  cudaError_t error = begin_call(call, &fault, needs_device);
  if (!enqueues) apply(fault);
  if (error == cudaSuccess && !fault.is(FaultAction::lose)) error = std::forward<Body>(body)(fault);
  if (error != cudaSuccess) last_error() = error;
  return error;
}

/// The same for a call that puts something on a stream: `body(Submission*) -> cudaError_t` fills it.
template <class Body>
cudaError_t stream_call(const char* call, cudaStream_t handle, cudaGraphNodeType type, Body&& body,
                        OperationPtr* op = nullptr) {
  return cuda_call(
      call,
      [&](const FaultDecision& fault) -> cudaError_t {
        Lock lock(machine().mutex);
        Stream* stream = resolve(lock, handle, call);
        if (stream == nullptr) return cudaErrorInvalidResourceHandle;
        Submission submission;
        submission.what = call;
        const cudaError_t error = std::forward<Body>(body)(&submission);
        if (error != cudaSuccess) return error;
        apply(fault, &submission);
        return submit(lock, stream, std::move(submission), type, op);
      },
      true, true);
}

}  // namespace comm::simulated::detail
