#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <nccl.h>

#include <vector>

#include "tests/build/scale.h"

TEST_CASE("cuda_library: a kernel launches, or the runtime names what this machine lacks") {
  int devices = 0;
  const cudaError_t found = cudaGetDeviceCount(&devices);
  if (found != cudaSuccess) {
    CHECK(found == cudaErrorInsufficientDriver);
    CHECK(launch_scale(nullptr, 1, 2.0F, nullptr) == cudaErrorInsufficientDriver);
    return;
  }
  const std::vector<float> values(1000, 3.0F);
  std::vector<float> scaled(values.size());
  float* device = nullptr;
  REQUIRE(cudaMalloc(&device, values.size() * sizeof(float)) == cudaSuccess);
  CHECK(cudaMemcpy(device, values.data(), values.size() * sizeof(float), cudaMemcpyDefault) ==
        cudaSuccess);
  CHECK(launch_scale(device, static_cast<int>(values.size()), 2.0F, nullptr) == cudaSuccess);
  CHECK(cudaMemcpy(scaled.data(), device, values.size() * sizeof(float), cudaMemcpyDefault) ==
        cudaSuccess);
  CHECK(scaled == std::vector<float>(values.size(), 6.0F));
  CHECK(cudaFree(device) == cudaSuccess);
}

TEST_CASE("local_cuda: the NCCL that is linked is the one whose header was found") {
  int version = 0;
  REQUIRE(ncclGetVersion(&version) == ncclSuccess);
  CHECK(version == NCCL_VERSION_CODE);
}
