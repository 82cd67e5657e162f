// Streams of the runtime API, and host functions on them.

#include <cuda_runtime_api.h>

#include "comm/testing/simulated/core/entry.h"

using namespace comm::simulated;
using namespace comm::simulated::detail;

namespace {

cudaError_t create(const char* call, cudaStream_t* handle, unsigned flags, int priority) {
  return cuda_call(call, [&](const FaultDecision&) {
    if (handle == nullptr || flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
    Lock lock(machine().mutex);
    *handle = reinterpret_cast<cudaStream_t>(
        make_stream(lock, current_device(), StreamKind::created, flags, priority));
    return cudaSuccess;
  });
}

// For queries: `body(Stream&)`.
template <class Body>
cudaError_t query(const char* call, cudaStream_t handle, Body&& body) {
  return cuda_call(call, [&](const FaultDecision&) -> cudaError_t {
    Lock lock(machine().mutex);
    Stream* stream = resolve(lock, handle, call);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return body(lock, *stream);
  });
}

cudaError_t sticky(const Stream& stream) {
  return static_cast<cudaError_t>(
      machine().devices[static_cast<std::size_t>(stream.device)].sticky_error);
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return create("cudaStreamCreate", stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return create("cudaStreamCreateWithFlags", stream, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return create("cudaStreamCreateWithPriority", stream, flags, priority);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return cuda_call("cudaStreamDestroy", [&](const FaultDecision&) -> cudaError_t {
    if (handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread) {
      return cudaErrorInvalidResourceHandle;
    }
    Lock lock(machine().mutex);
    Stream* stream = resolve(lock, handle, "cudaStreamDestroy");
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->capture != nullptr) {
      check_not_capturing(lock, stream);
      stream->capture->streams.erase(stream);
      if (stream->capture->origin == stream) {
        for (Stream* other : stream->capture->streams) {
          if (other != stream) other->frontier.clear();
        }
        machine().captures.erase(stream->capture.get());
      }
      stream->capture = nullptr;
    }
    close_stream(lock, stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return query("cudaStreamSynchronize", handle, [](Lock& lock, Stream& stream) -> cudaError_t {
    const int device = stream.device;
    cudaError_t error = check_not_capturing(lock, &stream);
    if (error == cudaSuccess) error = check_unsafe(lock);
    if (error == cudaSuccess && stream.kind == StreamKind::legacy) {
      error = check_no_capture_on(lock, device, cudaErrorStreamCaptureImplicit);
    }
    if (error != cudaSuccess) return error;
    if (stream.kind == StreamKind::legacy) {
      // The legacy stream is over when what it synchronises with is.
      Submission marker;
      marker.what = "cudaStreamSynchronize";
      marker.is_marker = true;
      enqueue(lock, &stream, std::move(marker));
    }
    if (const OperationPtr last = stream.last) wait_for(lock, last);
    return static_cast<cudaError_t>(
        machine().devices[static_cast<std::size_t>(device)].sticky_error);
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return query("cudaStreamQuery", handle, [](Lock& lock, Stream& stream) -> cudaError_t {
    cudaError_t error = check_not_capturing(lock, &stream);
    if (error == cudaSuccess) error = check_unsafe(lock);
    if (error != cudaSuccess) return error;
    const OperationPtr last = stream.last;
    if (last != nullptr && !poll(lock, last, &stream.polls)) return cudaErrorNotReady;
    return sticky(stream);
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  return query("cudaStreamGetFlags", handle, [&](Lock&, Stream& stream) {
    *flags = stream.flags;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return query("cudaStreamGetPriority", handle, [&](Lock&, Stream& stream) {
    *priority = stream.priority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  return query("cudaStreamGetId", handle, [&](Lock&, Stream& stream) {
    *id = stream.id;
    return cudaSuccess;
  });
}

#if CUDART_VERSION >= 12080
cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  return query("cudaStreamGetDevice", handle, [&](Lock&, Stream& stream) {
    *device = stream.device;
    return cudaSuccess;
  });
}
#endif

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  return query("cudaStreamWaitEvent", handle, [&](Lock& lock, Stream& stream) -> cudaError_t {
    Event* waited = resolve(lock, event, "cudaStreamWaitEvent");
    if (waited == nullptr) return cudaErrorInvalidResourceHandle;
    return wait_event(lock, &stream, waited);
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  return stream_call("cudaLaunchHostFunc", stream, cudaGraphNodeTypeHost, [&](Submission* call) {
    if (function == nullptr) return cudaErrorInvalidValue;
    call->pace = Pace::background;
    call->host_sees_completion = true;
    call->run = [function, argument](Operation&) { function(argument); };
    return cudaSuccess;
  });
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
                                  void* argument, unsigned flags) {
  return cuda_call(
      "cudaStreamAddCallback",
      [&](const FaultDecision&) -> cudaError_t {
        if (callback == nullptr || flags != 0) return cudaErrorInvalidValue;
        Lock lock(machine().mutex);
        Stream* on = resolve(lock, stream, "cudaStreamAddCallback");
        if (on == nullptr) return cudaErrorInvalidResourceHandle;
        const cudaError_t error = check_not_capturing(lock, on);
        if (error != cudaSuccess) return error;
        Submission call;
        call.what = "cudaStreamAddCallback";
        call.pace = Pace::background;
        call.host_sees_completion = true;
        call.run = [=](Operation&) { callback(stream, cudaSuccess, argument); };
        return submit(lock, on, std::move(call), cudaGraphNodeTypeHost);
      },
      true, true);
}

}  // extern "C"
