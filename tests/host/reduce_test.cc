// The reductions of every vector width, on raw bit patterns.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "comm/backends/host/reduce.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "comm/float_types.h"
#include "tests/host/reference.h"

namespace {

using comm::DataType;
using comm::ReduceOp;
using comm::detail::host::best_vectors;
using comm::detail::host::reduction;
using comm::detail::host::Vectors;

const double kFactors[] = {2.5, -0.75, 0.5, 3, -1};

std::vector<Vectors> variants() {
  std::vector<Vectors> all{Vectors::baseline};
  if (best_vectors() >= Vectors::avx2) all.push_back(Vectors::avx2);
  if (best_vectors() >= Vectors::avx512) all.push_back(Vectors::avx512);
  return all;
}

std::vector<std::byte> random_bytes(std::size_t n, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(n);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

bool is_nan(DataType type, const std::byte* p) {
  std::uint16_t half = 0;
  switch (type) {
    case DataType::f32: {
      float f;
      std::memcpy(&f, p, 4);
      return f != f;
    }
    case DataType::f64: {
      double d;
      std::memcpy(&d, p, 8);
      return d != d;
    }
    case DataType::f16:
    case DataType::bf16: {
      std::memcpy(&half, p, 2);
      const float f =
          type == DataType::f16 ? comm::f16::from_bits(half) : comm::bf16::from_bits(half);
      return f != f;
    }
    case DataType::f8e4m3: {
      const float f = comm::f8e4m3::from_bits(static_cast<std::uint8_t>(*p));
      return f != f;
    }
    case DataType::f8e5m2: {
      const float f = comm::f8e5m2::from_bits(static_cast<std::uint8_t>(*p));
      return f != f;
    }
    default: return false;
  }
}

}  // namespace

TEST_CASE(
    "every vector width gives the same bits for every type, reduction and number of sources") {
  constexpr std::size_t kCount = 256 + 16 + 5;
  for (int t = 0; t < comm::kDataTypeCount; ++t) {
    const auto type = static_cast<DataType>(t);
    const std::size_t e = comm::size_of(type);
    std::vector<std::vector<std::byte>> data;
    const void* sources[5];
    for (unsigned s = 0; s < 5; ++s)
      data.push_back(random_bytes(kCount * e, 10 * s + static_cast<unsigned>(t)));
    for (std::size_t s = 0; s < 5; ++s) sources[s] = data[s].data();
    for (const auto kind : reference::kKinds) {
      for (int n = 1; n <= 5; ++n) {
        std::vector<std::byte> expected(kCount * e);
        reduction(type, kind, Vectors::baseline)(expected.data(), sources, n, kCount, kFactors);
        for (const Vectors vectors : variants()) {
          std::vector<std::byte> got(kCount * e);
          reduction(type, kind, vectors)(got.data(), sources, n, kCount, kFactors);
          int wrong = 0;
          for (std::size_t i = 0; i < kCount; ++i) {
            const std::byte* a = got.data() + i * e;
            const std::byte* b = expected.data() + i * e;
            // Which of two NaNs survives may differ between processors, not on one.
            if (std::memcmp(a, b, e) != 0 && !(is_nan(type, a) && is_nan(type, b))) ++wrong;
          }
          CAPTURE(to_string(type));
          CAPTURE(static_cast<int>(kind));
          CAPTURE(n);
          CAPTURE(static_cast<int>(vectors));
          CHECK(wrong == 0);
        }
      }
    }
  }
}

TEST_CASE("a result depends on the contributions alone, not on where an element lies") {
  constexpr std::size_t kMost = 600;
  for (int t = 0; t < comm::kDataTypeCount; ++t) {
    const auto type = static_cast<DataType>(t);
    const std::size_t e = comm::size_of(type);
    const std::vector<std::byte> a = random_bytes(kMost * e, 1);
    const std::vector<std::byte> b = random_bytes(kMost * e, 2);
    for (const Vectors vectors : variants()) {
      const auto sum = reduction(type, ReduceOp::Kind::sum, vectors);
      const void* sources[] = {a.data(), b.data()};
      std::vector<std::byte> whole(kMost * e);
      sum(whole.data(), sources, 2, kMost, nullptr);
      for (std::size_t begin = 0; begin < 20; ++begin) {
        for (const std::size_t n : {1U, 2U, 7U, 15U, 16U, 17U, 255U, 257U, 560U}) {
          std::vector<std::byte> part((n + begin) * e);
          const void* from[] = {a.data() + begin * e, b.data() + begin * e};
          sum(part.data() + begin * e, from, 2, n, nullptr);
          CHECK(std::memcmp(part.data() + begin * e, whole.data() + begin * e, n * e) == 0);
        }
      }
    }
  }
}

TEST_CASE("the destination may be any one of the sources") {
  const std::vector<std::byte> a = random_bytes(1003 * 4, 1);
  const std::vector<std::byte> b = random_bytes(1003 * 4, 2);
  const std::vector<std::byte> c = random_bytes(1003 * 4, 3);
  for (const Vectors vectors : variants()) {
    const auto sum = reduction(DataType::i32, ReduceOp::Kind::sum, vectors);
    for (int n = 1; n <= 3; ++n) {
      const void* sources[] = {a.data(), b.data(), c.data()};
      std::vector<std::byte> expected(a.size());
      sum(expected.data(), sources, n, 1003, nullptr);
      for (int at = 0; at < n; ++at) {
        std::vector<std::byte> own = at == 0 ? a : at == 1 ? b : c;
        const void* aliased[] = {a.data(), b.data(), c.data()};
        aliased[at] = own.data();
        sum(own.data(), aliased, n, 1003, nullptr);
        CHECK(own == expected);
      }
    }
  }
}

TEST_CASE("minimum and maximum of floats is NaN where a contribution is") {
  const float nan = __builtin_nanf("");
  for (const auto kind : {ReduceOp::Kind::min, ReduceOp::Kind::max}) {
    for (int at = 0; at < 3; ++at) {
      float values[] = {1, 2, 3};
      values[at] = nan;
      const void* sources[] = {&values[0], &values[1], &values[2]};
      float result = 0;
      reduction(DataType::f32, kind)(&result, sources, 3, 1, nullptr);
      CHECK(result != result);
    }
  }
}
