// What the numbers promise beyond being those of the reference.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <algorithm>

#include "tests/host/ranks.h"
#include "tests/host/reference.h"

namespace {

using comm::DeviceSpan;
using ranks::Failures;
using ranks::HostCommunicator;
using reference::same_bits;

/// What the order of the additions can be told from: terms of very different sizes.
float term(int rank, std::size_t i) {
  const std::size_t scale = (static_cast<std::size_t>(rank) * 5 + i) % 7;
  return reference::value<float>(rank, i) * static_cast<float>(1U << (3 * scale));
}

std::vector<float> sum_in_rank_order(int ranks, std::size_t count) {
  std::vector<float> sum(count);
  for (std::size_t i = 0; i < count; ++i) {
    sum[i] = term(0, i);
    for (int r = 1; r < ranks; ++r) sum[i] += term(r, i);
  }
  return sum;
}

/// Powers of two and their neighbours up to a mebi, and primes.
std::vector<std::size_t> sweep() {
  std::vector<std::size_t> counts = {5, 11, 97, 769, 1009, 6151, 10007, 104729, 393241, 1'000'003};
  for (std::size_t power = 2; power <= 1 << 20; power *= 2)
    for (const std::size_t n : {power - 1, power, power + 1}) counts.push_back(n);
  return counts;
}

}  // namespace

TEST_CASE(
    "all_reduce: ranks whose buffers lie at different offsets get the same bits, NaN payloads "
    "included") {
  const ranks::Watchdog watchdog("bit identity");
  for (const int size : {2, 3, 5}) {
    ranks::as_threads(size, [](HostCommunicator& c, Failures& failures) {
      for (std::size_t n = 1; n < 70000; n += n < 200 ? 1 : n / 3) {
        // Each rank's own NaN at every third element; buffers at an offset of their own.
        std::vector<float> buffer(n + 16);
        float* mine = buffer.data() + c.rank() % 16;
        for (std::size_t i = 0; i < n; ++i) {
          const std::uint32_t nan = 0x7fc00000U + static_cast<std::uint32_t>(c.rank() * 1000) +
                                    static_cast<std::uint32_t>(i % 1000);
          mine[i] =
              i % 3 == 0 ? __builtin_bit_cast(float, nan) : reference::value<float>(c.rank(), i);
        }
        if (!c.all_reduce(DeviceSpan(mine, n)).ok()) failures.add("all_reduce failed");
        std::vector<float> everybody(n * static_cast<std::size_t>(c.world_size()));
        if (!c.all_gather(DeviceSpan<const float>(mine, n), DeviceSpan(everybody)).ok())
          failures.add("all_gather failed");
        for (int r = 0; r < c.world_size(); ++r)
          if (!same_bits(everybody.data() + static_cast<std::size_t>(r) * n, mine, n))
            failures.add("rank " + std::to_string(r) + " differs at count " + std::to_string(n));
      }
    });
  }
}

TEST_CASE(
    "all_reduce: of every count all ranks get the same bits, in every call: the rank-order sum") {
  const ranks::Watchdog watchdog("sweep of counts");
  for (const int size : {2, 3, 4}) {
    const std::vector<float> expected = sum_in_rank_order(size, (1 << 20) + 1);
    ranks::as_threads(size, [&](HostCommunicator& c, Failures& failures) {
      std::vector<float> terms(expected.size());
      for (std::size_t i = 0; i < terms.size(); ++i) terms[i] = term(c.rank(), i);
      std::vector<float> buffer(terms.size() + 16);
      for (const std::size_t n : sweep()) {
        for (int call = 0; call < 3; ++call) {
          float* mine = buffer.data() + (c.rank() + 3 * call) % 16;
          std::copy(terms.begin(), terms.begin() + static_cast<std::ptrdiff_t>(n), mine);
          if (!c.all_reduce(DeviceSpan(mine, n)).ok())
            return failures.add("all_reduce of " + std::to_string(n) + " failed");
          if (!same_bits(mine, expected.data(), n))
            failures.add("rank " + std::to_string(c.rank()) + ", count " + std::to_string(n) +
                         ", call " + std::to_string(call));
        }
      }
    });
  }
}

TEST_CASE("bf16 sums keep small terms: 256 and seven ones are 264") {
  ranks::as_threads(8, [](HostCommunicator& c, Failures& failures) {
    comm::bf16 x(c.rank() == 0 ? 256.0F : 1.0F);
    if (!c.all_reduce(DeviceSpan(&x, 1)).ok() || x != 264.0F) failures.add("not 264");
  });
}

TEST_CASE("integers wrap, and their average divides the sum towards zero") {
  ranks::as_threads(3, [](HostCommunicator& c, Failures& failures) {
    std::int32_t x = 1 << c.rank();
    if (!c.all_reduce(DeviceSpan(&x, 1), comm::ReduceOp::avg).ok() || x != 2)
      failures.add("{1,2,4}");
    x = -(1 << c.rank());
    if (!c.all_reduce(DeviceSpan(&x, 1), comm::ReduceOp::avg).ok() || x != -2)
      failures.add("-{1,2,4}");
    std::int8_t small = c.rank() == 0 ? 120 : c.rank() == 1 ? 100 : 0;
    if (!c.all_reduce(DeviceSpan(&small, 1)).ok() || small != -36) failures.add("int8 wraps");
  });
}
