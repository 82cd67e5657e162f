// Allocation, registration and pointer queries of the runtime API.

#include <cuda_runtime_api.h>

#include <cstring>

#include "comm/testing/simulated/core/entry.h"
#include "comm/testing/simulated/report.h"

using namespace comm::simulated;
using namespace comm::simulated::detail;

namespace {

cudaError_t allocate(const char* call, void** pointer, std::size_t size, MemoryKind kind) {
  return cuda_call(call, [&](const FaultDecision&) -> cudaError_t {
    if (pointer == nullptr) return cudaErrorInvalidValue;
    Lock lock(machine().mutex);
    const cudaError_t error = check_unsafe(lock);
    if (error != cudaSuccess) return error;
    *pointer = nullptr;
    if (size == 0) return cudaSuccess;
    *pointer = machine().memory.allocate(size, kind, current_device(), call);
    return *pointer == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

// cudaFree waits for the device, as the real one does; what still used the memory is reported all
// the same, since that wait is not promised.
cudaError_t release(const char* call, void* pointer, bool device_memory) {
  return cuda_call(call, [&](const FaultDecision&) -> cudaError_t {
    if (pointer == nullptr) return cudaSuccess;
    Lock lock(machine().mutex);
    const cudaError_t error = check_unsafe(lock);
    if (error != cudaSuccess) return error;
    Allocation* allocation = machine().memory.starting_at(pointer);
    if (allocation == nullptr || allocation->kind == MemoryKind::registered ||
        allocation->on_device() != device_memory) {
      const Allocation* known = machine().memory.holding(pointer);
      report(known != nullptr && known->freed ? Violation::stale_handle : Violation::bad_pointer,
             "%s(%p): %s", call, pointer,
             known == nullptr ? "not allocated"
             : known->freed   ? "freed before"
                              : "not the beginning of memory that this call frees");
      return cudaErrorInvalidValue;
    }
    if (allocation->from_nccl) {
      report(Violation::bad_usage, "%s(%p): made by ncclMemAlloc; ncclMemFree frees it", call,
             pointer);
    }
    check_not_in_flight(pointer, allocation->size, call);
    check_not_registered(pointer, allocation->size, call);
    wait_for_device(lock, allocation->on_device() ? allocation->device : -1);
    allocation = machine().memory.starting_at(pointer);  // The wait let others run.
    if (allocation == nullptr) return cudaErrorInvalidValue;
    machine().memory.release(allocation);
    return cudaSuccess;
  });
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t size) {
  return allocate("cudaMalloc", pointer, size, MemoryKind::device);
}

cudaError_t cudaMallocManaged(void** pointer, size_t size, unsigned) {
  return allocate("cudaMallocManaged", pointer, size, MemoryKind::managed);
}

cudaError_t cudaMallocHost(void** pointer, size_t size) {
  return allocate("cudaMallocHost", pointer, size, MemoryKind::pinned);
}

cudaError_t cudaHostAlloc(void** pointer, size_t size, unsigned) {
  return allocate("cudaHostAlloc", pointer, size, MemoryKind::pinned);
}

cudaError_t cudaFree(void* pointer) {
  return release("cudaFree", pointer, true);
}

cudaError_t cudaFreeHost(void* pointer) {
  return release("cudaFreeHost", pointer, false);
}

cudaError_t cudaMallocAsync(void** pointer, size_t size, cudaStream_t stream) {
  return cuda_call("cudaMallocAsync", [&](const FaultDecision&) -> cudaError_t {
    Lock lock(machine().mutex);
    Stream* on = resolve(lock, stream, "cudaMallocAsync");
    if (on == nullptr) return cudaErrorInvalidResourceHandle;
    const cudaError_t error = check_not_capturing(lock, on);
    if (error != cudaSuccess) return error;
    *pointer = size == 0 ? nullptr
                         : machine().memory.allocate(size, MemoryKind::device, on->device,
                                                     "cudaMallocAsync");
    return *pointer == nullptr && size != 0 ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return stream_call("cudaFreeAsync", stream, cudaGraphNodeTypeMemFree, [&](Submission* free) {
    const Allocation* allocation = machine().memory.starting_at(pointer);
    if (allocation == nullptr) {
      report(Violation::bad_pointer, "cudaFreeAsync(%p): not allocated, or freed before", pointer);
      return cudaErrorInvalidValue;
    }
    free->accesses.push_back(writes(pointer, allocation->size));
    free->run = [pointer](Operation&) {
      const Lock lock(machine().mutex);
      if (Allocation* now = machine().memory.starting_at(pointer)) machine().memory.release(now);
    };
    return cudaSuccess;
  });
}

cudaError_t cudaHostRegister(void* pointer, size_t size, unsigned flags) {
  return cuda_call("cudaHostRegister", [&](const FaultDecision&) -> cudaError_t {
    if (pointer == nullptr || size == 0) return cudaErrorInvalidValue;
    Lock lock(machine().mutex);
    const cudaError_t error = check_unsafe(lock);
    if (error != cudaSuccess) return error;
    return machine().memory.register_host(pointer, size, flags)
               ? cudaSuccess
               : cudaErrorHostMemoryAlreadyRegistered;
  });
}

cudaError_t cudaHostUnregister(void* pointer) {
  return cuda_call("cudaHostUnregister", [&](const FaultDecision&) -> cudaError_t {
    Lock lock(machine().mutex);
    Allocation* allocation = machine().memory.starting_at(pointer);
    if (allocation == nullptr || allocation->kind != MemoryKind::registered) {
      return cudaErrorHostMemoryNotRegistered;
    }
    check_not_in_flight(pointer, allocation->size, "cudaHostUnregister");
    machine().memory.release(allocation);
    return cudaSuccess;
  });
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  return cuda_call("cudaHostGetDevicePointer", [&](const FaultDecision&) {
    const Lock lock(machine().mutex);
    const Allocation* allocation = machine().memory.holding(host);
    if (allocation == nullptr || allocation->freed) return cudaErrorInvalidValue;
    *device = host;
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return cuda_call("cudaPointerGetAttributes", [&](const FaultDecision&) {
    const Lock lock(machine().mutex);
    const Allocation* allocation = machine().memory.holding(pointer);
    std::memset(attributes, 0, sizeof(*attributes));
    attributes->device = -2;  // cudaInvalidDeviceId
    attributes->hostPointer = const_cast<void*>(pointer);
    attributes->type = cudaMemoryTypeUnregistered;
    if (allocation == nullptr || allocation->freed) return cudaSuccess;
    attributes->device = allocation->device;
    attributes->devicePointer = const_cast<void*>(pointer);
    switch (allocation->kind) {
      case MemoryKind::device:
        attributes->type = cudaMemoryTypeDevice;
        attributes->hostPointer = nullptr;
        break;
      case MemoryKind::managed: attributes->type = cudaMemoryTypeManaged; break;
      case MemoryKind::pinned:
      case MemoryKind::registered: attributes->type = cudaMemoryTypeHost; break;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return cuda_call("cudaMemGetInfo", [&](const FaultDecision&) {
    const Lock lock(machine().mutex);
    *total = Memory::kBytesPerDevice;
    *free = *total - machine().memory.used(current_device());
    return cudaSuccess;
  });
}

}  // extern "C"
