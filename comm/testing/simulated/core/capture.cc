#include "comm/testing/simulated/core/capture.h"

#include <algorithm>
#include <utility>

namespace comm::simulated::detail {
namespace {

cudaError_t invalidate(Capture* capture, cudaError_t error) {
  capture->invalid = true;
  return error;
}

void leave(Capture* capture) {
  for (Stream* stream : capture->streams) {
    stream->capture = nullptr;
    stream->frontier.clear();
  }
  capture->streams.clear();
  machine().captures.erase(capture);
}

// Whether each node that ends a branch is before the origin's frontier.
bool is_joined(const Capture& capture) {
  const std::vector<Node>& nodes = capture.graph->nodes;
  std::vector<bool> reached(nodes.size(), false);
  std::vector<std::size_t> todo = capture.origin->frontier;
  while (!todo.empty()) {
    const std::size_t node = todo.back();
    todo.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    todo.insert(todo.end(), nodes[node].after.begin(), nodes[node].after.end());
  }
  return std::find(reached.begin(), reached.end(), false) == reached.end();
}

void add_all(std::vector<std::size_t>* to, const std::vector<std::size_t>& from) {
  for (std::size_t node : from) {
    if (std::find(to->begin(), to->end(), node) == to->end()) to->push_back(node);
  }
}

}  // namespace

cudaStreamCaptureMode& thread_capture_mode() {
  thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  return mode;
}

cudaError_t begin_capture(Lock&, Stream* stream, cudaStreamCaptureMode mode) {
  if (stream->kind == StreamKind::legacy) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture != nullptr) return cudaErrorIllegalState;
  const auto capture = std::make_shared<Capture>();
  capture->id = machine().next_id++;
  capture->mode = mode;
  capture->owner = std::this_thread::get_id();
  capture->origin = stream;
  capture->streams.insert(stream);
  capture->graph = std::make_unique<Graph>();
  stream->capture = capture;
  stream->frontier.clear();
  machine().captures.insert(capture.get());
  return cudaSuccess;
}

cudaError_t end_capture(Lock&, Stream* stream, cudaGraph_t* graph) {
  *graph = nullptr;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return cudaErrorIllegalState;
  if (capture->origin != stream) {
    return invalidate(capture.get(), cudaErrorStreamCaptureUnmatched);
  }
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->owner != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  const bool joined = is_joined(*capture);
  const bool invalid = capture->invalid;
  leave(capture.get());
  // Of a capture that failed nothing stays, though events recorded in it still point to it.
  std::unique_ptr<Graph> captured = std::move(capture->graph);
  if (invalid) return cudaErrorStreamCaptureInvalidated;
  if (!joined) return cudaErrorStreamCaptureUnjoined;
  Graph* made = captured.release();
  machine().graphs.insert(made);
  *graph = reinterpret_cast<cudaGraph_t>(made);
  return cudaSuccess;
}

cudaError_t submit(Lock& lock, Stream* stream, Submission submission, cudaGraphNodeType type,
                   OperationPtr* op) {
  if (stream->capture != nullptr) {
    Capture* capture = stream->capture.get();
    if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
    Node node;
    node.submission = std::move(submission);
    node.after = stream->frontier;
    node.type = type;
    capture->graph->nodes.push_back(std::move(node));
    stream->frontier = {capture->graph->nodes.size() - 1};
    return cudaSuccess;
  }
  if (stream->kind == StreamKind::legacy) {
    const cudaError_t error =
        check_no_capture_on(lock, stream->device, cudaErrorStreamCaptureImplicit);
    if (error != cudaSuccess) return error;
  }
  const OperationPtr enqueued = enqueue(lock, stream, std::move(submission));
  if (op != nullptr) *op = enqueued;
  return cudaSuccess;
}

cudaError_t record(Lock& lock, Event* event, Stream* stream) {
  if (stream->capture != nullptr) {
    if (stream->capture->invalid) return cudaErrorStreamCaptureInvalidated;
    event->capture = stream->capture;
    event->frontier = stream->frontier;
    event->recorded = nullptr;
    return cudaSuccess;
  }
  Submission marker;
  marker.what = "cudaEventRecord";
  marker.is_marker = true;
  OperationPtr op;
  const cudaError_t error =
      submit(lock, stream, std::move(marker), cudaGraphNodeTypeEventRecord, &op);
  if (error != cudaSuccess) return error;
  event->recorded = std::move(op);
  event->capture = nullptr;
  event->frontier.clear();
  event->polls = 0;
  return cudaSuccess;
}

cudaError_t wait_event(Lock& lock, Stream* stream, Event* event) {
  const std::shared_ptr<Capture> from = event->capture;
  if (from != nullptr && machine().captures.count(from.get()) != 0) {
    if (stream->capture == nullptr) {  // The stream joins the capture.
      if (stream->kind == StreamKind::legacy) {
        return invalidate(from.get(), cudaErrorStreamCaptureImplicit);
      }
      if (from->invalid) return cudaErrorStreamCaptureInvalidated;
      stream->capture = from;
      stream->frontier = event->frontier;
      from->streams.insert(stream);
      return cudaSuccess;
    }
    if (stream->capture != from) {
      invalidate(stream->capture.get(), cudaSuccess);
      return invalidate(from.get(), cudaErrorStreamCaptureMerge);
    }
    if (from->invalid) return cudaErrorStreamCaptureInvalidated;
    add_all(&stream->frontier, event->frontier);
    return cudaSuccess;
  }
  if (from != nullptr) return cudaErrorInvalidValue;  // That capture is over.
  if (stream->capture != nullptr) {
    if (event->recorded == nullptr) return cudaSuccess;
    return invalidate(stream->capture.get(), cudaErrorStreamCaptureIsolation);
  }
  if (event->recorded == nullptr) return cudaSuccess;
  Submission marker;
  marker.what = "cudaStreamWaitEvent";
  marker.is_marker = true;
  marker.waits.promised.push_back(event->recorded);
  return submit(lock, stream, std::move(marker), cudaGraphNodeTypeWaitEvent);
}

cudaError_t check_unsafe(Lock&) {
  const cudaStreamCaptureMode mode = thread_capture_mode();
  if (mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  for (Capture* capture : machine().captures) {
    if (capture->mode == cudaStreamCaptureModeRelaxed) continue;
    const bool own = capture->owner == std::this_thread::get_id();
    const bool others_global =
        mode == cudaStreamCaptureModeGlobal && capture->mode == cudaStreamCaptureModeGlobal;
    if (own || others_global) error = invalidate(capture, cudaErrorStreamCaptureUnsupported);
  }
  return error;
}

cudaError_t check_not_capturing(Lock&, Stream* stream) {
  if (stream->capture == nullptr) return cudaSuccess;
  return invalidate(stream->capture.get(), cudaErrorStreamCaptureUnsupported);
}

cudaError_t check_no_capture_on(Lock&, int device, cudaError_t error) {
  for (Stream* stream : machine().streams) {
    if (stream->device != device || stream->capture == nullptr) continue;
    if (error == cudaErrorStreamCaptureImplicit && !stream->blocks_with_legacy()) continue;
    return invalidate(stream->capture.get(), error);
  }
  return cudaSuccess;
}

}  // namespace comm::simulated::detail
