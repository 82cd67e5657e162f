#pragma once

/// What the tests on a GPU share: memory of the GPU, and values to put there.

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "comm/device_span.h"

namespace comm::testing {

template <class T>
class GpuBuffer {
 public:
  explicit GpuBuffer(const std::vector<T>& values) : count_(values.size()) {
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&data_), count_ * sizeof(T)) == cudaSuccess);
    REQUIRE(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyDefault) == cudaSuccess);
  }
  GpuBuffer(const GpuBuffer&) = delete;
  GpuBuffer& operator=(const GpuBuffer&) = delete;
  ~GpuBuffer() { (void)cudaFree(data_); }

  T* get() const { return data_; }
  DeviceSpan<T> span() const { return {data_, count_}; }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    REQUIRE(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDefault) == cudaSuccess);
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

/// Of all magnitudes from tiny to large, both signs.
template <class T>
std::vector<T> random_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> mantissa(-2.0F, 2.0F);
  std::uniform_int_distribution<int> exponent(-8, 8);
  std::vector<T> values(count);
  for (T& v : values) v = T(std::ldexp(mantissa(random), exponent(random)));
  return values;
}

template <class S>
void check(const S& s) {
  CHECK_MESSAGE(s.ok(), s.message());
}

}  // namespace comm::testing
