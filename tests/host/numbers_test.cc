// What the numbers promise beyond being those of the reference.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "tests/host/ranks.h"
#include "tests/host/reference.h"

namespace {

using comm::DeviceSpan;
using ranks::Failures;
using ranks::HostCommunicator;
using reference::same_bits;

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
