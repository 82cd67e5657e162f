// Kernels: host functions in place of device code, launched by the runtime and by the driver (CUDA
// Runtime API, "Execution Control"; CUDA Driver API, "Execution Control", "Library Management").

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <cuda.h>
#include <cuda_bf16.h>

#include "comm/testing/simulated/kernel.h"
#include "tests/simulated/fixture.h"
#include "tests/simulated/own_symbols.h"

using namespace comm;
using namespace comm::testing;

namespace {

void scale(const simulated::Launch& launch, float* data, float factor, std::size_t count) {
  CHECK(launch.grid.x == 2);
  CHECK(launch.block.x == 128);
  for (std::size_t i = 0; i < count; ++i) data[i] *= factor;
}

std::vector<simulated::Touched> touched_by_scale(float* data, float, std::size_t count) {
  return {{data, count * sizeof(float), true}};
}

void scale_stub() {}  // What nvcc would make of `scale` for the host: its address names the kernel.

}  // namespace

TEST_CASE("the symbols are the simulation's") {
  CHECK(is_simulated(cuLaunchKernel));
  CHECK(is_simulated(cuInit));
}

TEST_CASE("by address, by handle and by the driver's entry point") {
  Watchdog watchdog("launches");
  NoReports none;
  simulated::register_kernel(reinterpret_cast<const void*>(&scale_stub), "scale",
                             simulated::host_kernel(scale, touched_by_scale));
  for (unsigned seed = 1; seed <= 20; ++seed) {
    simulated::set_seed(seed);
    OwnedStream stream;
    Buffer<float> data({1, 2, 3}, stream);
    float* pointer = data.get();
    float factor = 2;
    std::size_t count = 3;
    void* arguments[] = {&pointer, &factor, &count};
    CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(&scale_stub), dim3(2), dim3(128),
                           arguments, 0, stream) == cudaSuccess);
    factor = 10;  // The arguments were copied.

    CUmodule module = nullptr;
    CUfunction function = nullptr;
    CHECK(cuModuleLoadData(&module, nullptr) == CUDA_SUCCESS);
    CHECK(cuModuleGetFunction(&function, module, "scale") == CUDA_SUCCESS);
    void* found = nullptr;
    cudaDriverEntryPointQueryResult status{};
    CHECK(cudaGetDriverEntryPointByVersion("cuLaunchKernel", &found, 12000, cudaEnableDefault,
                                           &status) == cudaSuccess);
    REQUIRE(status == cudaDriverEntryPointSuccess);
    const auto launch = reinterpret_cast<decltype(&cuLaunchKernel)>(found);
    CHECK(launch(function, 2, 1, 1, 128, 1, 1, 0, stream, arguments, nullptr) == CUDA_SUCCESS);
    CHECK(data.take(stream) == std::vector<float>{20, 40, 60});
  }
}

TEST_CASE("what a kernel touches is ordered against other streams") {
  NoReports none;
  simulated::register_kernel("scale", scale, touched_by_scale);
  OwnedStream a;
  OwnedStream b;
  Buffer<float> data(3);
  float* pointer = data.get();
  float factor = 2;
  std::size_t count = 3;
  void* arguments[] = {&pointer, &factor, &count};
  cudaMemsetAsync(pointer, 0, 12, a);
  CHECK(cuLaunchKernel(static_cast<CUfunction>(simulated::kernel_handle("scale")), 2, 1, 1, 128, 1,
                       1, 0, b, arguments, nullptr) == CUDA_SUCCESS);
  cudaDeviceSynchronize();
  const auto reports = simulated::take_reports();
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].text.find("kernel scale") != std::string::npos);
}

TEST_CASE("unknown kernels and impossible grids are refused") {
  NoReports none;
  CUfunction function = nullptr;
  CHECK(cuModuleGetFunction(&function, nullptr, "no_such_kernel") == CUDA_ERROR_NOT_FOUND);
  const int unknown = 0;
  CHECK(cudaLaunchKernel(&unknown, dim3(1), dim3(1), nullptr, 0, nullptr) ==
        cudaErrorInvalidDeviceFunction);
  CHECK(simulated::take_reports().size() == 1);
  simulated::register_kernel("scale", scale);
  CHECK(cudaLaunchKernel(simulated::kernel_handle("scale"), dim3(1), dim3(2048), nullptr, 0,
                         nullptr) == cudaErrorInvalidConfiguration);
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("comm's own kernels are there") {
  NoReports none;
  OwnedStream stream;
  Buffer<__nv_bfloat16> a({__float2bfloat16(1.5F)}, stream);
  Buffer<__nv_bfloat16> b({__float2bfloat16(2.0F)}, stream);
  __nv_bfloat16* accumulator = a.get();
  const __nv_bfloat16* addend = b.get();
  std::size_t count = 1;
  void* arguments[] = {&accumulator, &addend, &count};
  void* kernel = simulated::kernel_handle("comm_bf16_add_inplace");
  REQUIRE(kernel != nullptr);
  CHECK(cudaLaunchKernel(kernel, dim3(1), dim3(32), arguments, 0, stream) == cudaSuccess);
  CHECK(__bfloat162float(a.take(stream)[0]) == 3.5F);
}
