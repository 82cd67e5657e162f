// Streams, events, capture and graphs of the driver API.

#include <cuda.h>

#include "comm/testing/simulated/driver/driver_call.h"

using namespace comm::simulated;
using namespace comm::simulated::detail;

// The runtime's types are the driver's, so the handles pass as they are.

extern "C" {

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return driver_call("cuStreamCreate", [&] { return cudaStreamCreateWithFlags(stream, flags); });
}

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return driver_call("cuStreamCreateWithPriority",
                     [&] { return cudaStreamCreateWithPriority(stream, flags, priority); });
}

CUresult cuStreamDestroy(CUstream stream) {
  return driver_call("cuStreamDestroy", [&] { return cudaStreamDestroy(stream); });
}

CUresult cuStreamSynchronize(CUstream stream) {
  return driver_call("cuStreamSynchronize", [&] { return cudaStreamSynchronize(stream); });
}

CUresult cuStreamQuery(CUstream stream) {
  return driver_call("cuStreamQuery", [&] { return cudaStreamQuery(stream); });
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  return driver_call("cuStreamWaitEvent",
                     [&] { return cudaStreamWaitEvent(stream, event, flags); });
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  return driver_call("cuStreamBeginCapture", [&] {
    return cudaStreamBeginCapture(stream, static_cast<cudaStreamCaptureMode>(mode));
  });
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  return driver_call("cuStreamEndCapture", [&] { return cudaStreamEndCapture(stream, graph); });
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return driver_call("cuStreamIsCapturing", [&] {
    cudaStreamCaptureStatus found = cudaStreamCaptureStatusNone;
    const cudaError_t error = cudaStreamIsCapturing(stream, &found);
    *status = static_cast<CUstreamCaptureStatus>(found);
    return error;
  });
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return driver_call("cuThreadExchangeStreamCaptureMode", [&] {
    auto exchanged = static_cast<cudaStreamCaptureMode>(*mode);
    const cudaError_t error = cudaThreadExchangeStreamCaptureMode(&exchanged);
    *mode = static_cast<CUstreamCaptureMode>(exchanged);
    return error;
  });
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* argument) {
  return driver_call("cuLaunchHostFunc",
                     [&] { return cudaLaunchHostFunc(stream, function, argument); });
}

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  return driver_call("cuEventCreate", [&] { return cudaEventCreateWithFlags(event, flags); });
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return driver_call("cuEventRecord", [&] { return cudaEventRecord(event, stream); });
}

CUresult cuEventQuery(CUevent event) {
  return driver_call("cuEventQuery", [&] { return cudaEventQuery(event); });
}

CUresult cuEventSynchronize(CUevent event) {
  return driver_call("cuEventSynchronize", [&] { return cudaEventSynchronize(event); });
}

CUresult cuEventDestroy(CUevent event) {
  return driver_call("cuEventDestroy", [&] { return cudaEventDestroy(event); });
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return driver_call("cuGraphInstantiate",
                     [&] { return cudaGraphInstantiateWithFlags(exec, graph, flags); });
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return driver_call("cuGraphLaunch", [&] { return cudaGraphLaunch(exec, stream); });
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return driver_call("cuGraphExecDestroy", [&] { return cudaGraphExecDestroy(exec); });
}

CUresult cuGraphDestroy(CUgraph graph) {
  return driver_call("cuGraphDestroy", [&] { return cudaGraphDestroy(graph); });
}

}  // extern "C"
