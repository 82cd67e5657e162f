// Copies and sets of the runtime API, waited for and not.

#include <cuda_runtime_api.h>

#include <cstring>
#include <memory>
#include <vector>

#include "comm/testing/simulated/core/entry.h"
#include "comm/testing/simulated/report.h"

using namespace comm::simulated;
using namespace comm::simulated::detail;

namespace {

bool is_pageable(const void* pointer) {
  return machine().memory.holding(pointer) == nullptr;
}

bool check_range(const char* call, const char* what, const void* pointer, std::size_t size,
                 bool needs_device) {
  const std::string why = describe_bad_range(machine().memory, pointer, size, 1, needs_device);
  if (why.empty()) return true;
  report(Violation::bad_pointer, "%s: %s: %s", call, what, why.c_str());
  return false;
}

// Under the mutex. `*must_wait`: the destination is pageable, so that CUDA returns only when the
// copy is done.
cudaError_t fill_copy(const char* call, void* to, const void* from, std::size_t size,
                      cudaMemcpyKind kind, Submission* copy, bool* must_wait) {
  if (size == 0) return cudaSuccess;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  if (!check_range(call, "destination", to, size, to_device) ||
      !check_range(call, "source", from, size, from_device)) {
    return cudaErrorInvalidValue;
  }
  *must_wait = is_pageable(to);
  copy->accesses = {reads(from, size), writes(to, size)};
  if (is_pageable(from)) {
    // CUDA takes a copy of pageable memory before it returns.
    copy->accesses.erase(copy->accesses.begin());
    const char* begin = static_cast<const char*>(from);
    const auto staged = std::make_shared<std::vector<char>>(begin, begin + size);
    copy->run = [to, staged](Operation&) { std::memcpy(to, staged->data(), staged->size()); };
  } else {
    copy->run = [to, from, size](Operation&) { std::memmove(to, from, size); };
  }
  return cudaSuccess;
}

cudaError_t wait_after(const OperationPtr& op) {
  if (op == nullptr) return cudaSuccess;
  Lock lock(machine().mutex);
  wait_for(lock, op);
  return static_cast<cudaError_t>(
      machine().devices[static_cast<std::size_t>(current_device())].sticky_error);
}

cudaError_t copy_async(const char* call, void* to, const void* from, std::size_t size,
                       cudaMemcpyKind kind, cudaStream_t stream, bool wait) {
  bool must_wait = false;
  OperationPtr op;
  const cudaError_t error = stream_call(
      call, stream, cudaGraphNodeTypeMemcpy,
      [&](Submission* copy) { return fill_copy(call, to, from, size, kind, copy, &must_wait); },
      &op);
  if (error != cudaSuccess || !(wait || must_wait)) return error;
  return wait_after(op);
}

cudaError_t set_async(const char* call, void* to, int value, std::size_t size, cudaStream_t stream,
                      OperationPtr* op) {
  return stream_call(
      call, stream, cudaGraphNodeTypeMemset,
      [&](Submission* set) {
        if (size == 0) return cudaSuccess;
        if (!check_range(call, "destination", to, size, true)) return cudaErrorInvalidValue;
        set->accesses = {writes(to, size)};
        set->run = [to, value, size](Operation&) { std::memset(to, value, size); };
        return cudaSuccess;
      },
      op);
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind kind) {
  return copy_async("cudaMemcpy", to, from, size, kind, cudaStreamLegacy, true);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy_async("cudaMemcpyAsync", to, from, size, kind, stream, false);
}

cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t size) {
  return copy_async("cudaMemcpyPeer", to, from, size, cudaMemcpyDeviceToDevice, cudaStreamLegacy,
                    true);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t size,
                                cudaStream_t stream) {
  return copy_async("cudaMemcpyPeerAsync", to, from, size, cudaMemcpyDeviceToDevice, stream, false);
}

cudaError_t cudaMemset(void* to, int value, size_t size) {
  // The host does not wait for a set of device memory.
  return set_async("cudaMemset", to, value, size, cudaStreamLegacy, nullptr);
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t size, cudaStream_t stream) {
  return set_async("cudaMemsetAsync", to, value, size, stream, nullptr);
}

}  // extern "C"
