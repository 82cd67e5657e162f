// What programs built with CUDA_API_PER_THREAD_DEFAULT_STREAM link: the same functions under names
// that end in _ptsz or _ptds, for which stream 0 is the calling thread's own.

#include <cuda_runtime_api.h>

namespace {

cudaStream_t own(cudaStream_t stream) {
  return stream == nullptr ? cudaStreamPerThread : stream;
}

cudaError_t finish(cudaError_t error) {
  return error == cudaSuccess ? cudaStreamSynchronize(cudaStreamPerThread) : error;
}

}  // namespace

#define COMM_SIM_PER_THREAD(result, name, parameters, ...) \
  result name parameters;                                  \
  result name parameters {                                 \
    return __VA_ARGS__;                                    \
  }

extern "C" {

COMM_SIM_PER_THREAD(cudaError_t, cudaMemcpy_ptds,
                    (void* to, const void* from, size_t size, cudaMemcpyKind kind),
                    finish(cudaMemcpyAsync(to, from, size, kind, cudaStreamPerThread)))
COMM_SIM_PER_THREAD(cudaError_t, cudaMemset_ptds, (void* to, int value, size_t size),
                    cudaMemsetAsync(to, value, size, cudaStreamPerThread))
COMM_SIM_PER_THREAD(cudaError_t, cudaMemcpyAsync_ptsz,
                    (void* to, const void* from, size_t size, cudaMemcpyKind kind,
                     cudaStream_t stream),
                    cudaMemcpyAsync(to, from, size, kind, own(stream)))
COMM_SIM_PER_THREAD(cudaError_t, cudaMemsetAsync_ptsz,
                    (void* to, int value, size_t size, cudaStream_t stream),
                    cudaMemsetAsync(to, value, size, own(stream)))
COMM_SIM_PER_THREAD(cudaError_t, cudaMallocAsync_ptsz,
                    (void** pointer, size_t size, cudaStream_t stream),
                    cudaMallocAsync(pointer, size, own(stream)))
COMM_SIM_PER_THREAD(cudaError_t, cudaFreeAsync_ptsz, (void* pointer, cudaStream_t stream),
                    cudaFreeAsync(pointer, own(stream)))
COMM_SIM_PER_THREAD(cudaError_t, cudaStreamSynchronize_ptsz, (cudaStream_t stream),
                    cudaStreamSynchronize(own(stream)))
COMM_SIM_PER_THREAD(cudaError_t, cudaStreamQuery_ptsz, (cudaStream_t stream),
                    cudaStreamQuery(own(stream)))
COMM_SIM_PER_THREAD(cudaError_t, cudaStreamWaitEvent_ptsz,
                    (cudaStream_t stream, cudaEvent_t event, unsigned flags),
                    cudaStreamWaitEvent(own(stream), event, flags))
COMM_SIM_PER_THREAD(cudaError_t, cudaStreamIsCapturing_ptsz,
                    (cudaStream_t stream, cudaStreamCaptureStatus* status),
                    cudaStreamIsCapturing(own(stream), status))
COMM_SIM_PER_THREAD(cudaError_t, cudaStreamBeginCapture_ptsz,
                    (cudaStream_t stream, cudaStreamCaptureMode mode),
                    cudaStreamBeginCapture(own(stream), mode))
COMM_SIM_PER_THREAD(cudaError_t, cudaStreamEndCapture_ptsz,
                    (cudaStream_t stream, cudaGraph_t* graph),
                    cudaStreamEndCapture(own(stream), graph))
COMM_SIM_PER_THREAD(cudaError_t, cudaEventRecord_ptsz, (cudaEvent_t event, cudaStream_t stream),
                    cudaEventRecord(event, own(stream)))
COMM_SIM_PER_THREAD(cudaError_t, cudaLaunchHostFunc_ptsz,
                    (cudaStream_t stream, cudaHostFn_t function, void* argument),
                    cudaLaunchHostFunc(own(stream), function, argument))
COMM_SIM_PER_THREAD(cudaError_t, cudaGraphLaunch_ptsz, (cudaGraphExec_t exec, cudaStream_t stream),
                    cudaGraphLaunch(exec, own(stream)))
COMM_SIM_PER_THREAD(cudaError_t, cudaLaunchKernel_ptsz,
                    (const void* function, dim3 grid, dim3 block, void** arguments,
                     size_t shared_bytes, cudaStream_t stream),
                    cudaLaunchKernel(function, grid, block, arguments, shared_bytes, own(stream)))

}  // extern "C"
