#include "tests/build/scale.h"

namespace {

__global__ void scale(float* values, int count, float factor) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) values[i] *= factor;
}

}  // namespace

cudaError_t launch_scale(float* values, int count, float factor, cudaStream_t stream) {
  scale<<<(count + 255) / 256, 256, 0, stream>>>(values, count, factor);
  return cudaGetLastError();
}
