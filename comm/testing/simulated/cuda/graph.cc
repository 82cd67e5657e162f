// Stream capture and graphs of the runtime API.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>

#include "comm/testing/simulated/core/entry.h"
#include "comm/testing/simulated/report.h"

using namespace comm::simulated;
using namespace comm::simulated::detail;

namespace {

// What cudaUserObjectCreate made: `destroy(pointer)` runs when the last reference goes.
struct UserObject {
  void* pointer = nullptr;
  cudaHostFn_t destroy = nullptr;

  ~UserObject() { destroy(pointer); }
};

// The references that the user holds; graphs hold shared_ptrs of their own.
struct UserHandle {
  std::shared_ptr<UserObject> object;
  unsigned count = 0;
};

template <class Object, class Handle>
Object* live(const std::set<Object*>& all, Handle handle, const char* call) {
  Object* object = reinterpret_cast<Object*>(handle);
  if (all.count(object) != 0) return object;
  report(Violation::stale_handle, "%s: %p is no graph, or one that was destroyed", call,
         static_cast<void*>(handle));
  return nullptr;
}

cudaError_t instantiate(const char* call, cudaGraphExec_t* handle, cudaGraph_t graph) {
  return cuda_call(call, [&](const FaultDecision&) -> cudaError_t {
    Lock lock(machine().mutex);
    const Graph* from = live(machine().graphs, graph, call);
    if (from == nullptr || handle == nullptr) return cudaErrorInvalidValue;
    const cudaError_t error = check_unsafe(lock);
    if (error != cudaSuccess) return error;
    GraphExec* exec = new GraphExec;
    exec->nodes = from->nodes;
    exec->kept = from->kept;
    machine().graph_execs.insert(exec);
    *handle = reinterpret_cast<cudaGraphExec_t>(exec);
    return cudaSuccess;
  });
}

// Deletes it outside the mutex: what it keeps may call back (user objects, NCCL's counts).
template <class Object, class Handle>
cudaError_t destroy(const char* call, std::set<Object*> Machine::*all, Handle handle) {
  return cuda_call(call, [&](const FaultDecision&) -> cudaError_t {
    Object* object = nullptr;
    {
      const Lock lock(machine().mutex);
      object = live(machine().*all, handle, call);
      if (object == nullptr) return cudaErrorInvalidValue;
      (machine().*all).erase(object);
    }
    delete object;
    return cudaSuccess;
  });
}

}  // namespace

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return cuda_call("cudaStreamBeginCapture", [&](const FaultDecision&) -> cudaError_t {
    Lock lock(machine().mutex);
    Stream* stream = resolve(lock, handle, "cudaStreamBeginCapture");
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return begin_capture(lock, stream, mode);
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return cuda_call("cudaStreamEndCapture", [&](const FaultDecision&) -> cudaError_t {
    Lock lock(machine().mutex);
    Stream* stream = resolve(lock, handle, "cudaStreamEndCapture");
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return end_capture(lock, stream, graph);
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return cuda_call("cudaStreamIsCapturing", [&](const FaultDecision&) -> cudaError_t {
    Lock lock(machine().mutex);
    Stream* stream = resolve(lock, handle, "cudaStreamIsCapturing");
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->kind == StreamKind::legacy) {
      // Asked of the legacy stream while another one captures: an error, but no invalidation.
      for (const Stream* other : machine().streams) {
        if (other->capture != nullptr && other->device == stream->device &&
            other->blocks_with_legacy()) {
          return cudaErrorStreamCaptureImplicit;
        }
      }
    }
    *status = stream->capture == nullptr ? cudaStreamCaptureStatusNone
              : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                         : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

namespace {

cudaError_t capture_info(cudaStream_t handle, cudaStreamCaptureStatus* status,
                         unsigned long long* id, cudaGraph_t* graph) {
  return cuda_call("cudaStreamGetCaptureInfo", [&](const FaultDecision&) -> cudaError_t {
    Lock lock(machine().mutex);
    Stream* stream = resolve(lock, handle, "cudaStreamGetCaptureInfo");
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    const Capture* capture = stream->capture.get();
    *status = capture == nullptr ? cudaStreamCaptureStatusNone
              : capture->invalid ? cudaStreamCaptureStatusInvalidated
                                 : cudaStreamCaptureStatusActive;
    if (capture == nullptr) return cudaSuccess;
    if (id != nullptr) *id = capture->id;
    if (graph != nullptr) *graph = reinterpret_cast<cudaGraph_t>(capture->graph.get());
    return cudaSuccess;
  });
}

}  // namespace

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                     size_t* count) {
  if (nodes != nullptr) *nodes = nullptr;
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = 0;
  return capture_info(stream, status, id, graph);
}
#else
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                        unsigned long long* id, cudaGraph_t* graph,
                                        const cudaGraphNode_t** nodes, size_t* count) {
  if (nodes != nullptr) *nodes = nullptr;
  if (count != nullptr) *count = 0;
  return capture_info(stream, status, id, graph);
}
#endif

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return cuda_call("cudaThreadExchangeStreamCaptureMode", [&](const FaultDecision&) {
    std::swap(*mode, thread_capture_mode());
    return cudaSuccess;
  });
}

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  return cuda_call("cudaGraphCreate", [&](const FaultDecision&) {
    if (flags != 0) return cudaErrorInvalidValue;
    const Lock lock(machine().mutex);
    Graph* made = new Graph;
    machine().graphs.insert(made);
    *graph = reinterpret_cast<cudaGraph_t>(made);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return cuda_call("cudaGraphGetNodes", [&](const FaultDecision&) -> cudaError_t {
    const Lock lock(machine().mutex);
    Graph* from = live(machine().graphs, graph, "cudaGraphGetNodes");
    if (from == nullptr) return cudaErrorInvalidValue;
    if (nodes != nullptr) {
      for (std::size_t i = 0; i < *count; ++i) {
        nodes[i] =
            i < from->nodes.size() ? reinterpret_cast<cudaGraphNode_t>(&from->nodes[i]) : nullptr;
      }
    }
    *count = nodes == nullptr ? from->nodes.size() : std::min(*count, from->nodes.size());
    return cudaSuccess;
  });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return cuda_call("cudaGraphNodeGetType", [&](const FaultDecision&) {
    const Lock lock(machine().mutex);
    *type = reinterpret_cast<const Node*>(node)->type;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  return instantiate("cudaGraphInstantiate", exec, graph);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long) {
  return instantiate("cudaGraphInstantiateWithFlags", exec, graph);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  return stream_call("cudaGraphUpload", stream, cudaGraphNodeTypeEmpty, [&](Submission*) {
    return live(machine().graph_execs, exec, "cudaGraphUpload") == nullptr ? cudaErrorInvalidValue
                                                                           : cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream) {
  return stream_call("cudaGraphLaunch", stream, cudaGraphNodeTypeGraph, [&](Submission* launch) {
    GraphExec* exec = live(machine().graph_execs, handle, "cudaGraphLaunch");
    if (exec == nullptr) return cudaErrorInvalidValue;
    *launch = launch_of(exec);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return destroy<Graph>("cudaGraphDestroy", &Machine::graphs, graph);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return destroy<GraphExec>("cudaGraphExecDestroy", &Machine::graph_execs, exec);
}

cudaError_t cudaUserObjectCreate(cudaUserObject_t* handle, void* pointer, cudaHostFn_t destroy,
                                 unsigned count, unsigned flags) {
  return cuda_call("cudaUserObjectCreate", [&](const FaultDecision&) {
    if (destroy == nullptr || count == 0 || flags != cudaUserObjectNoDestructorSync) {
      return cudaErrorInvalidValue;
    }
    const auto object = std::make_shared<UserObject>();
    object->pointer = pointer;
    object->destroy = destroy;
    *handle = reinterpret_cast<cudaUserObject_t>(new UserHandle{object, count});
    return cudaSuccess;
  });
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t handle, unsigned count) {
  return cuda_call("cudaUserObjectRetain", [&](const FaultDecision&) {
    const Lock lock(machine().mutex);
    reinterpret_cast<UserHandle*>(handle)->count += count;
    return cudaSuccess;
  });
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t handle, unsigned count) {
  return cuda_call("cudaUserObjectRelease", [&](const FaultDecision&) -> cudaError_t {
    UserHandle* mine = reinterpret_cast<UserHandle*>(handle);
    {
      const Lock lock(machine().mutex);
      if (count > mine->count) return cudaErrorInvalidValue;
      mine->count -= count;
      if (mine->count != 0) return cudaSuccess;
    }
    delete mine;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t handle, unsigned count,
                                      unsigned flags) {
  return cuda_call("cudaGraphRetainUserObject", [&](const FaultDecision&) -> cudaError_t {
    UserHandle* mine = reinterpret_cast<UserHandle*>(handle);
    bool last = false;
    {
      const Lock lock(machine().mutex);
      // The graph of a capture under way may be given too; it is in no table yet.
      Graph* to = reinterpret_cast<Graph*>(graph);
      to->kept.push_back(mine->object);
      if ((flags & cudaGraphUserObjectMove) != 0) {
        mine->count -= std::min(mine->count, count);
        last = mine->count == 0;
      }
    }
    if (last) delete mine;
    return cudaSuccess;
  });
}

}  // extern "C"
