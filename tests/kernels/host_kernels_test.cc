#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "comm/kernels/host_kernels.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "comm/kernels/sum_body.h"

namespace {

using comm::kernels::Contributions;

template <class T>
struct Names;
template <>
struct Names<__nv_bfloat16> {
  static constexpr const char* add = "comm_bf16_add_inplace";
  static constexpr const char* rank_sum = "comm_bf16_add_rank_sum";
};
template <>
struct Names<__half> {
  static constexpr const char* add = "comm_f16_add_inplace";
  static constexpr const char* rank_sum = "comm_f16_add_rank_sum";
};
template <>
struct Names<float> {
  static constexpr const char* add = "comm_f32_add_inplace";
  static constexpr const char* rank_sum = "comm_f32_add_rank_sum";
};

auto kernel(const std::string& name) {
  for (const auto& k : comm::kernels::host_kernels())
    if (k.name == name) return k.run;
  FAIL("no kernel is called " << name);
  return static_cast<void (*)(void**)>(nullptr);
}

template <class T>
T element(float value) {
  return comm::kernels::rounded<T>(value);
}

template <class T>
bool same_bits(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

/// `count` random elements that begin `offset` elements behind a 16-byte boundary.
template <class T>
struct Buffer {
  Buffer(std::size_t count, std::size_t offset, unsigned seed) : storage(count + offset + 32) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> value(-100.0F, 100.0F);
    const auto address = reinterpret_cast<std::uintptr_t>(storage.data());
    const std::size_t to_boundary = (16 - address % 16) % 16 / sizeof(T);
    data = storage.data() + to_boundary + offset;
    for (T& e : storage) e = element<T>(value(random));
    end = data[count];
  }
  std::vector<T> storage;
  T* data;
  T end{};
};

const std::size_t kCounts[] = {0, 1, 3, 7, 8, 9, 15, 16, 17, 255, 256, 257, 4095, 4096, 4097};

}  // namespace

TEST_CASE_TEMPLATE("add_inplace: every count and every alignment adds what lies there, no more", T,
                   __nv_bfloat16, __half, float) {
  for (std::size_t count : kCounts) {
    for (std::size_t offset = 0; offset < 8; ++offset) {
      Buffer<T> a(count, offset, 1);
      Buffer<T> b(count, offset % 3, 2);
      const std::vector<T> before(a.data, a.data + count);
      const T* addend = b.data;
      void* arguments[] = {&a.data, &addend, &count};
      kernel(Names<T>::add)(arguments);
      bool right = true;
      for (std::size_t i = 0; i < count; ++i) {
        const float sum = comm::kernels::widened(before[i]) + comm::kernels::widened(b.data[i]);
        right = right && same_bits(a.data[i], element<T>(sum));
      }
      CHECK_MESSAGE(right, "count " << count << ", offset " << offset);
      CHECK(same_bits(a.data[count], a.end));
    }
  }
}

TEST_CASE_TEMPLATE("add_rank_sum: all ranks get the same bits, the sum in rank order", T,
                   __nv_bfloat16, __half, float) {
  for (int world : {2, 3, 4, 8}) {
    for (std::size_t count : kCounts) {
      const std::size_t stride = (count + 7) / 8 * 8;
      std::vector<Buffer<T>> inputs;
      for (int r = 0; r < world; ++r) inputs.emplace_back(count, 0, 10U + static_cast<unsigned>(r));
      for (int rank = 0; rank < world; ++rank) {
        Buffer<T> received(stride * static_cast<std::size_t>(world), 0, 99);
        for (int r = 0; r < world; ++r)
          if (r != rank)
            std::memcpy(static_cast<void*>(received.data + static_cast<std::size_t>(r) * stride),
                        inputs[static_cast<std::size_t>(r)].data, count * sizeof(T));
        Buffer<T> own = Buffer<T>(count, static_cast<std::size_t>(rank) % 3, 0);
        std::memcpy(static_cast<void*>(own.data), inputs[static_cast<std::size_t>(rank)].data,
                    count * sizeof(T));
        Contributions<T> from{own.data, received.data, stride, rank, world};
        void* arguments[] = {&own.data, &from, &count};
        kernel(Names<T>::rank_sum)(arguments);
        bool right = true;
        for (std::size_t i = 0; i < count; ++i) {
          float sum = 0;
          for (int r = 0; r < world; ++r)
            sum += comm::kernels::widened(inputs[static_cast<std::size_t>(r)].data[i]);
          right = right && same_bits(own.data[i], element<T>(sum));
        }
        CHECK_MESSAGE(right, "world " << world << ", rank " << rank << ", count " << count);
      }
    }
  }
}

TEST_CASE("add_rank_sum: small terms are not lost to a bf16 accumulator (256 and seven 1s: 264)") {
  const std::size_t count = 1;
  Buffer<__nv_bfloat16> received(64, 0, 1);
  for (std::size_t r = 0; r < 8; ++r) received.data[r * 8] = element<__nv_bfloat16>(1);
  Buffer<__nv_bfloat16> own(1, 0, 1);
  own.data[0] = element<__nv_bfloat16>(256);
  Contributions<__nv_bfloat16> from{own.data, received.data, 8, 0, 8};
  void* arguments[] = {&own.data, &from, const_cast<std::size_t*>(&count)};
  kernel("comm_bf16_add_rank_sum")(arguments);
  CHECK(comm::kernels::widened(own.data[0]) == 264.0F);
}

TEST_CASE_TEMPLATE("add_inplace: two NaNs give the same NaN in either order", T, __nv_bfloat16,
                   __half, float) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  float other = -kNaN;
  std::uint32_t bits = 0;
  std::memcpy(&bits, &other, sizeof bits);
  bits |= 0x1234;
  std::memcpy(&other, &bits, sizeof bits);
  T one[1];
  T two[1];
  std::memcpy(static_cast<void*>(one), &kNaN, sizeof(T));
  std::memcpy(static_cast<void*>(two), &other, sizeof(T));
  if (sizeof(T) == 2) {
    one[0] = element<T>(kNaN);
    two[0] = element<T>(std::numeric_limits<float>::infinity());
    const T minus = element<T>(-std::numeric_limits<float>::infinity());
    two[0] = element<T>(comm::kernels::widened(two[0]) + comm::kernels::widened(minus));
  }
  T a[1] = {one[0]};
  T b[1] = {two[0]};
  comm::kernels::add_inplace(a, two, 1, 0, 1);
  comm::kernels::add_inplace(b, one, 1, 0, 1);
  CHECK(same_bits(a[0], b[0]));
  CHECK(comm::kernels::widened(a[0]) != comm::kernels::widened(a[0]));
}

TEST_CASE("bf16: every bit pattern survives the way to float and back, NaN stays NaN") {
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    __nv_bfloat16 value;
    std::memcpy(static_cast<void*>(&value), &bits, sizeof bits);
    const float wide = comm::kernels::widened(value);
    const auto back = comm::kernels::rounded<__nv_bfloat16>(wide);
    if (wide != wide) {
      CHECK(comm::kernels::widened(back) != comm::kernels::widened(back));
    } else {
      REQUIRE(same_bits(back, value));
    }
  }
}

TEST_CASE("bf16: ties go to even, and what is past the largest value to infinity") {
  const auto round_trip = [](float value) {
    return comm::kernels::widened(comm::kernels::rounded<__nv_bfloat16>(value));
  };
  CHECK(round_trip(257.0F) == 256.0F);
  CHECK(round_trip(259.0F) == 260.0F);
  CHECK(round_trip(std::numeric_limits<float>::max()) == std::numeric_limits<float>::infinity());
}

TEST_CASE("workers: however many share the work, each element is done once") {
  constexpr std::size_t kCount = 1003;
  Buffer<float> whole(kCount, 0, 5);
  Buffer<float> shared(kCount, 0, 5);
  const Buffer<float> addend(kCount, 0, 6);
  comm::kernels::add_inplace(whole.data, static_cast<const float*>(addend.data), kCount, 0, 1);
  for (std::size_t w = 0; w < 37; ++w)
    comm::kernels::add_inplace(shared.data, static_cast<const float*>(addend.data), kCount, w, 37);
  CHECK(std::memcmp(whole.data, shared.data, kCount * sizeof(float)) == 0);
}
