#pragma once

/// The arithmetic of comm's own reductions: an element widened to float, and a float rounded to an
/// element, once, to nearest even. NaN stays NaN, and becomes the one NaN that NVIDIA GPUs produce,
/// so that a sum has the same bits whichever rank, operand order or processor made it. The same code
/// runs in kernels and on the host.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>

#if defined(__CUDACC__)
#define COMM_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define COMM_HOST_DEVICE inline
#endif

namespace comm::kernels {

COMM_HOST_DEVICE float widened(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
COMM_HOST_DEVICE float widened(__half value) {
  return __half2float(value);
}
COMM_HOST_DEVICE float widened(float value) {
  return value;
}

template <class T>
COMM_HOST_DEVICE T rounded(float sum);

template <>
COMM_HOST_DEVICE __nv_bfloat16 rounded<__nv_bfloat16>(float sum) {
  return __float2bfloat16_rn(sum);
}

template <>
COMM_HOST_DEVICE __half rounded<__half>(float sum) {
  return __float2half_rn(sum);
}

template <>
COMM_HOST_DEVICE float rounded<float>(float sum) {
#if !defined(__CUDA_ARCH__)
  // x86 keeps the payload of one operand, and which one depends on their order.
  if (sum != sum) {
    const unsigned int canonical = 0x7fffffffU;
    std::memcpy(&sum, &canonical, sizeof sum);
  }
#endif
  return sum;
}

}  // namespace comm::kernels
