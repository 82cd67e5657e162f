// Memory of the driver API.

#include <cuda.h>

#include "comm/testing/simulated/driver/driver_call.h"

using namespace comm::simulated;
using namespace comm::simulated::detail;

extern "C" {

CUresult cuMemAlloc(CUdeviceptr* pointer, size_t size) {
  return driver_call("cuMemAlloc", [&] {
    if (size == 0) return cudaErrorInvalidValue;
    void* made = nullptr;
    const cudaError_t error = cudaMalloc(&made, size);
    *pointer = reinterpret_cast<CUdeviceptr>(made);
    return error;
  });
}

CUresult cuMemFree(CUdeviceptr pointer) {
  return driver_call("cuMemFree", [&] { return cudaFree(host_pointer(pointer)); });
}

CUresult cuMemGetInfo(size_t* free, size_t* total) {
  return driver_call("cuMemGetInfo", [&] { return cudaMemGetInfo(free, total); });
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t size) {
  return driver_call("cuMemcpyHtoD", [&] {
    return cudaMemcpy(host_pointer(to), from, size, cudaMemcpyHostToDevice);
  });
}

CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t size) {
  return driver_call("cuMemcpyDtoH", [&] {
    return cudaMemcpy(to, host_pointer(from), size, cudaMemcpyDeviceToHost);
  });
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t size, CUstream stream) {
  return driver_call("cuMemcpyHtoDAsync", [&] {
    return cudaMemcpyAsync(host_pointer(to), from, size, cudaMemcpyHostToDevice, stream);
  });
}

CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t size, CUstream stream) {
  return driver_call("cuMemcpyDtoHAsync", [&] {
    return cudaMemcpyAsync(to, host_pointer(from), size, cudaMemcpyDeviceToHost, stream);
  });
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  return driver_call("cuMemcpyDtoDAsync", [&] {
    return cudaMemcpyAsync(host_pointer(to), host_pointer(from), size, cudaMemcpyDeviceToDevice,
                           stream);
  });
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return driver_call("cuMemsetD8Async",
                     [&] { return cudaMemsetAsync(host_pointer(to), value, count, stream); });
}

CUresult cuMemGetAddressRange(CUdeviceptr* begin, size_t* size, CUdeviceptr pointer) {
  return driver_call("cuMemGetAddressRange", [&] {
    const Lock lock(machine().mutex);
    const Allocation* found = machine().memory.holding(host_pointer(pointer));
    if (found == nullptr || found->freed || !found->on_device()) return cudaErrorInvalidValue;
    if (begin != nullptr) *begin = found->begin;
    if (size != nullptr) *size = found->size;
    return cudaSuccess;
  });
}

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr pointer) {
  return driver_call("cuPointerGetAttribute", [&] {
    const Lock lock(machine().mutex);
    const Allocation* found = machine().memory.holding(host_pointer(pointer));
    if (found == nullptr || found->freed) return cudaErrorInvalidValue;
    switch (attribute) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned*>(value) =
            found->on_device() ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        return cudaSuccess;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(value) = found->device;
        return cudaSuccess;
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *static_cast<CUdeviceptr*>(value) = found->begin;
        return cudaSuccess;
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *static_cast<std::size_t*>(value) = found->size;
        return cudaSuccess;
      default: return cudaErrorNotSupported;
    }
  });
}

}  // extern "C"
