#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "comm/float_types.h"
#include "comm/kernels/sum.h"
#include "tests/gpu/device_buffer.h"

// comm's kernels on a GPU, against sums in double.

namespace {

using comm::bf16;
using comm::f16;
using comm::testing::check;
using comm::testing::GpuBuffer;
using comm::testing::random_values;

#ifdef COMM_TEST_SIMULATED
constexpr int kLarge = (1 << 14) + 3;
#else
constexpr int kLarge = (1 << 20) + 3;
#endif

const comm::Stream kDefault{cudaStream_t{}};

template <class T>
bool same_bits(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

/// Bytes a second of `work`, which moves `bytes`, in GB/s.
template <class Work>
double rate(double bytes, Work work) {
  constexpr int kTimes = 10;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  REQUIRE(cudaEventCreate(&begin) == cudaSuccess);
  REQUIRE(cudaEventCreate(&end) == cudaSuccess);
  for (int i = 0; i < 3; ++i) work();
  REQUIRE(cudaEventRecord(begin, nullptr) == cudaSuccess);
  for (int i = 0; i < kTimes; ++i) work();
  REQUIRE(cudaEventRecord(end, nullptr) == cudaSuccess);
  REQUIRE(cudaEventSynchronize(end) == cudaSuccess);
  float ms = 0;
  REQUIRE(cudaEventElapsedTime(&ms, begin, end) == cudaSuccess);
  (void)cudaEventDestroy(begin);
  (void)cudaEventDestroy(end);
  return kTimes * bytes / ms / 1e6;
}

}  // namespace

TEST_CASE_TEMPLATE("gpu: add_inplace is the sum in double, rounded once; any offset and count", T,
                   bf16, f16, float) {
  constexpr comm::DataType kType = comm::element_type<T>;
  for (std::size_t offset : {0, 1, 2, 3, 5, 7, 8}) {
    for (std::size_t other : {0, 1, 4}) {
      for (std::size_t count : {1, 2, 7, 8, 9, 31, 4095, 4097, kLarge}) {
        const std::vector<T> a = random_values<T>(count + offset + 1, 1);
        const std::vector<T> b = random_values<T>(count + other + 1, 2);
        const GpuBuffer<T> sum(a);
        const GpuBuffer<T> addend(b);
        check(comm::kernels::add_inplace(kType, sum.get() + offset, addend.get() + other, count,
                                         kDefault));
        const std::vector<T> got = sum.read();
        bool right = same_bits(got.back(), a.back());  // Nothing beyond the end.
        for (std::size_t i = 0; i < offset; ++i) right = right && same_bits(got[i], a[i]);
        for (std::size_t i = 0; i < count; ++i) {
          const double exact = static_cast<double>(static_cast<float>(a[offset + i])) +
                               static_cast<double>(static_cast<float>(b[other + i]));
          right = right && same_bits(got[offset + i], T(static_cast<float>(exact)));
        }
        CHECK_MESSAGE(right, "offsets " << offset << " and " << other << ", count " << count);
      }
    }
  }
}

TEST_CASE_TEMPLATE("gpu: add_rank_sum adds in rank order, in float, and is near the sum in double",
                   T, bf16, f16, float) {
  constexpr std::size_t kCount = 10'001;
  constexpr std::size_t kStride = 10'008;
  for (const int world : {2, 3, 8}) {
    const auto ranks = static_cast<std::size_t>(world);
    const std::vector<T> all = random_values<T>(kStride * ranks, 3);
    const GpuBuffer<T> received(all);
    std::vector<T> first;
    for (int rank = 0; rank < world; ++rank) {
      const auto own_at = all.begin() + static_cast<std::ptrdiff_t>(kStride) * rank;
      const GpuBuffer<T> own(std::vector<T>(own_at, own_at + kCount));
      check(comm::kernels::add_rank_sum(
          comm::element_type<T>,
          {own.get(), own.get(), received.get(), kStride, rank, world, kCount}, kDefault));
      const std::vector<T> got = own.read();
      bool right = true;
      bool near = true;
      for (std::size_t i = 0; i < kCount; ++i) {
        float sum = static_cast<float>(all[i]);
        double exact = sum;
        double magnitude = std::fabs(exact);
        for (std::size_t r = 1; r < ranks; ++r) {
          const auto term = static_cast<float>(all[r * kStride + i]);
          sum += term;
          exact += static_cast<double>(term);
          magnitude += std::fabs(static_cast<double>(term));
        }
        right = right && same_bits(got[i], T(sum));
        const double unit = sizeof(T) == 4 ? 0x1p-21 : 0x1p-8;
        near = near && std::fabs(static_cast<double>(static_cast<float>(got[i])) - exact) <=
                           unit * magnitude + 1e-7;
      }
      CHECK_MESSAGE(right, "rank " << rank << " of " << world);
      CHECK_MESSAGE(near, "rank " << rank << " of " << world);
      if (rank == 0) first = got;
      CHECK(std::memcmp(first.data(), got.data(), kCount * sizeof(T)) == 0);
    }
  }
}

#ifndef COMM_TEST_SIMULATED  // Times mean nothing there.
TEST_CASE("gpu: bandwidth of add_inplace beside that of cudaMemcpy") {
  constexpr std::size_t kCount = std::size_t{1} << 28;
  const GpuBuffer<bf16> a(std::vector<bf16>(kCount, bf16(1.0F)));
  const GpuBuffer<bf16> b(std::vector<bf16>(kCount, bf16(1.0F)));
  const double copy = rate(2.0 * kCount * sizeof(bf16), [&] {
    (void)cudaMemcpyAsync(a.get(), b.get(), kCount * sizeof(bf16), cudaMemcpyDeviceToDevice,
                          nullptr);
  });
  const double add = rate(3.0 * kCount * sizeof(bf16), [&] {
    comm::kernels::bf16_add_inplace(a.get(), b.get(), kCount, kDefault).ignore();
  });
  std::printf("cudaMemcpy %.0f GB/s, bf16_add_inplace %.0f GB/s (%.0f %%)\n", copy, add,
              100 * add / copy);
  CHECK(add >= 0.9 * copy);
}
#endif
