// Initialisation, devices, contexts and errors of the driver API.

#include <cstring>
#include <iterator>

#include "comm/testing/simulated/driver/driver_call.h"
#include "comm/testing/simulated/settings.h"

using namespace comm::simulated;
using namespace comm::simulated::detail;

namespace {

// A device's primary context is the address of its element here.
char contexts[64];

CUcontext context_of(int device) {
  return reinterpret_cast<CUcontext>(&contexts[device]);
}

int device_of(CUcontext context) {
  const char* place = reinterpret_cast<const char*>(context);
  return place >= std::begin(contexts) && place < std::end(contexts)
             ? static_cast<int>(place - contexts)
             : -1;
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return driver_call("cuInit", [] {
    int count = 0;
    return cudaGetDeviceCount(&count);
  });
}

CUresult cuDriverGetVersion(int* version) {
  return driver_call("cuDriverGetVersion", [&] { return cudaDriverGetVersion(version); });
}

CUresult cuDeviceGetCount(int* count) {
  return driver_call("cuDeviceGetCount", [&] { return cudaGetDeviceCount(count); });
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return driver_call("cuDeviceGet", [&] {
    if (ordinal < 0 || ordinal >= settings().devices) return cudaErrorInvalidDevice;
    *device = ordinal;
    return cudaSuccess;
  });
}

CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
  return driver_call("cuDeviceGetName", [&] {
    cudaDeviceProp properties;
    const cudaError_t error = cudaGetDeviceProperties(&properties, device);
    if (error == cudaSuccess) {
      std::strncpy(name, properties.name, static_cast<std::size_t>(size) - 1);
      name[size - 1] = '\0';
    }
    return error;
  });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return driver_call("cuDeviceGetAttribute", [&] {
    return cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(attribute), device);
  });
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice) {
  return driver_call("cuDeviceTotalMem", [&] {
    *bytes = Memory::kBytesPerDevice;
    return cudaSuccess;
  });
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return driver_call("cuDevicePrimaryCtxRetain", [&] {
    if (device < 0 || device >= settings().devices) return cudaErrorInvalidDevice;
    *context = context_of(device);
    return cudaSuccess;
  });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice) {
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  return driver_call("cuCtxGetCurrent", [&] {
    *context = context_of(current_device());
    return cudaSuccess;
  });
}

CUresult cuCtxSetCurrent(CUcontext context) {
  return driver_call("cuCtxSetCurrent", [&] {
    if (context == nullptr) return cudaSuccess;
    return device_of(context) == -1 ? cudaErrorInvalidValue : cudaSetDevice(device_of(context));
  });
}

CUresult cuCtxGetDevice(CUdevice* device) {
  return driver_call("cuCtxGetDevice", [&] { return cudaGetDevice(device); });
}

CUresult cuCtxSynchronize() {
  return driver_call("cuCtxSynchronize", [] { return cudaDeviceSynchronize(); });
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  *name =
      error == CUDA_SUCCESS ? "CUDA_SUCCESS" : cudaGetErrorName(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = cudaGetErrorString(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}

}  // extern "C"
