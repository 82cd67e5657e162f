// Devices, versions and errors of the runtime API.

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

#include "comm/testing/simulated/core/entry.h"
#include "comm/testing/simulated/settings.h"

using namespace comm::simulated;
using namespace comm::simulated::detail;

namespace {

bool exists(int device) {
  return device >= 0 && device < settings().devices;
}

int attribute(cudaDeviceAttr which) {
  const int capability = settings().compute_capability;
  switch (which) {
    case cudaDevAttrComputeCapabilityMajor: return capability / 10;
    case cudaDevAttrComputeCapabilityMinor: return capability % 10;
    case cudaDevAttrMultiProcessorCount: return 132;
    case cudaDevAttrMaxThreadsPerBlock: return 1024;
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY: return 1024;
    case cudaDevAttrMaxBlockDimZ: return 64;
    case cudaDevAttrMaxGridDimX: return 2147483647;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ: return 65535;
    case cudaDevAttrWarpSize: return 32;
    case cudaDevAttrMaxThreadsPerMultiProcessor: return 2048;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrAsyncEngineCount:
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrCooperativeLaunch: return 1;
    default: return 0;
  }
}

// Bus ids as distinct machines give them: one slot for each device.
void bus_id(int device, char* text, int size) {
  std::snprintf(text, static_cast<std::size_t>(size), "0000:%02X:00.0", device + 1);
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  return cuda_call("cudaGetDeviceCount", [&](const FaultDecision&) {
    *count = settings().devices;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return cuda_call(
      "cudaSetDevice",
      [&](const FaultDecision&) -> cudaError_t {
        if (!settings().has_driver) return cudaErrorInsufficientDriver;
        if (settings().devices == 0) return cudaErrorNoDevice;
        if (!exists(device)) return cudaErrorInvalidDevice;
        current_device() = device;
        return cudaSuccess;
      },
      false);
}

cudaError_t cudaGetDevice(int* device) {
  return cuda_call("cudaGetDevice", [&](const FaultDecision&) {
    *device = current_device();
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return cuda_call("cudaDeviceSynchronize", [&](const FaultDecision&) -> cudaError_t {
    Lock lock(machine().mutex);
    const cudaError_t error =
        check_no_capture_on(lock, current_device(), cudaErrorStreamCaptureUnsupported);
    if (error != cudaSuccess) return error;
    wait_for_device(lock, current_device());
    return static_cast<cudaError_t>(
        machine().devices[static_cast<std::size_t>(current_device())].sticky_error);
  });
}

cudaError_t cudaDeviceReset() {
  return cuda_call(
      "cudaDeviceReset",
      [&](const FaultDecision&) {
        Lock lock(machine().mutex);
        wait_for_device(lock, current_device());
        machine().devices[static_cast<std::size_t>(current_device())].sticky_error = 0;
        return cudaSuccess;
      },
      false);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  return cuda_call("cudaDeviceGetAttribute", [&](const FaultDecision&) {
    if (!exists(device)) return cudaErrorInvalidDevice;
    *value = which == cudaDevAttrPciBusId ? device + 1 : attribute(which);
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return cuda_call("cudaGetDeviceProperties", [&](const FaultDecision&) {
    if (!exists(device)) return cudaErrorInvalidDevice;
    std::memset(properties, 0, sizeof(*properties));
    std::snprintf(properties->name, sizeof(properties->name), "Simulated GPU %d", device);
    properties->totalGlobalMem = Memory::kBytesPerDevice;
    properties->major = attribute(cudaDevAttrComputeCapabilityMajor);
    properties->minor = attribute(cudaDevAttrComputeCapabilityMinor);
    properties->multiProcessorCount = attribute(cudaDevAttrMultiProcessorCount);
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = 1024;
    properties->unifiedAddressing = 1;
    properties->managedMemory = 1;
    properties->concurrentKernels = 1;
    properties->pciBusID = device + 1;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  return cuda_call("cudaDeviceGetPCIBusId", [&](const FaultDecision&) {
    if (!exists(device)) return cudaErrorInvalidDevice;
    bus_id(device, text, size);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  return cuda_call("cudaDeviceGetByPCIBusId", [&](const FaultDecision&) {
    for (int i = 0; i < settings().devices; ++i) {
      char mine[32];
      bus_id(i, mine, sizeof(mine));
      if (std::strcmp(mine, text) == 0) {
        *device = i;
        return cudaSuccess;
      }
    }
    return cudaErrorInvalidDevice;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return cuda_call("cudaDeviceGetStreamPriorityRange", [&](const FaultDecision&) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return cuda_call("cudaDeviceCanAccessPeer", [&](const FaultDecision&) {
    if (!exists(device) || !exists(peer)) return cudaErrorInvalidDevice;
    *can = device != peer ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return cuda_call("cudaDeviceEnablePeerAccess", [&](const FaultDecision&) {
    if (flags != 0) return cudaErrorInvalidValue;
    if (!exists(peer) || peer == current_device()) return cudaErrorInvalidDevice;
    const Lock lock(machine().mutex);
    auto& peers = machine().devices[static_cast<std::size_t>(current_device())].peers;
    for (int known : peers) {
      if (known == peer) return cudaErrorPeerAccessAlreadyEnabled;
    }
    peers.push_back(peer);
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  return cuda_call(
      "cudaDriverGetVersion",
      [&](const FaultDecision&) {
        *version = settings().has_driver ? CUDART_VERSION : 0;
        return cudaSuccess;
      },
      false);
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  return cuda_call(
      "cudaRuntimeGetVersion",
      [&](const FaultDecision&) {
        *version = CUDART_VERSION;
        return cudaSuccess;
      },
      false);
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error();
  last_error() = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  return last_error();
}

}  // extern "C"
