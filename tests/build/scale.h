#pragma once

#include <cuda_runtime_api.h>

/// A kernel as small as one can be, to see that cuda_library compiles and links.
cudaError_t launch_scale(float* values, int count, float factor, cudaStream_t stream);
