#pragma once

/// Stream capture, and the way of every operation onto a stream: while the stream captures, it
/// becomes a node of the graph instead. Illegal calls invalidate the capture and return the error
/// codes of the CUDA programming guide ("Stream Capture", "Cross-stream Dependencies and Events",
/// "Prohibited and Unhandled Operations").

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <set>
#include <thread>

#include "comm/testing/simulated/core/event.h"
#include "comm/testing/simulated/core/graph.h"
#include "comm/testing/simulated/core/stream.h"

namespace comm::simulated::detail {

struct Capture {
  std::uint64_t id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id owner;
  Stream* origin = nullptr;
  std::set<Stream*> streams;  // Those that capture into it, the origin included.
  bool invalid = false;
  std::unique_ptr<Graph> graph;
};

/// The calling thread's mode (cudaThreadExchangeStreamCaptureMode).
cudaStreamCaptureMode& thread_capture_mode();

cudaError_t begin_capture(Lock& lock, Stream* stream, cudaStreamCaptureMode mode);
cudaError_t end_capture(Lock& lock, Stream* stream, cudaGraph_t* graph);

/// Enqueues, or adds a node. Null in `*op` when it was captured.
cudaError_t submit(Lock& lock, Stream* stream, Submission submission, cudaGraphNodeType type,
                   OperationPtr* op = nullptr);

cudaError_t record(Lock& lock, Event* event, Stream* stream);
cudaError_t wait_event(Lock& lock, Stream* stream, Event* event);

/// For calls that the programming guide names unsafe while a capture is under way: refused, and the
/// capture invalidated, as the thread's mode and the capture's say.
cudaError_t check_unsafe(Lock& lock);

/// For calls that synchronise with the stream, which never work while it captures.
cudaError_t check_not_capturing(Lock& lock, Stream* stream);

/// For calls that synchronise with the whole device, or use the legacy stream.
cudaError_t check_no_capture_on(Lock& lock, int device, cudaError_t error);

}  // namespace comm::simulated::detail
