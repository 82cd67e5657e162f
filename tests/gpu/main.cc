#define DOCTEST_CONFIG_IMPLEMENT
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

/// Without a GPU there is nothing to test: it says so, and ends with 77, which under Bazel is success
/// (Bazel has no word for "not here").
int main(int argc, char** argv) {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0) {
    std::printf("NOT RUN: there is no GPU to use here (%s)\n", cudaGetErrorString(error));
    return std::getenv("TEST_SRCDIR") != nullptr ? 0 : 77;
  }
  return doctest::Context(argc, argv).run();
}
