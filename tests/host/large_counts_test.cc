// Counts beyond 2^31. The contributions are pages that were never written, which take no memory, so
// that only the result does.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <sys/mman.h>

#include "tests/host/ranks.h"

namespace {

using comm::DeviceSpan;
using ranks::HostCommunicator;

constexpr std::size_t kCount = (std::size_t{1} << 31) + 3;
constexpr int kGood = 42;

/// Zeros, of which only those pages take memory that are written.
struct Zeros {
  std::uint8_t* data = static_cast<std::uint8_t*>(mmap(
      nullptr, kCount, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  ~Zeros() { munmap(data, kCount); }
};

}  // namespace

TEST_CASE("2^31 + 3 elements arrive exact, from the first to the last") {
  const ranks::Watchdog watchdog("large counts");
  ranks::Processes world(2, [](HostCommunicator& c) {
    const Zeros buffer;
    const std::size_t marks[] = {0, 1, (std::size_t{1} << 31) - 1, std::size_t{1} << 31,
                                 kCount - 1};
    for (const std::size_t i : marks) buffer.data[i] = static_cast<std::uint8_t>(c.rank() + 3);
    const DeviceSpan<std::uint8_t> span(buffer.data, kCount);
    // In place on the root, which alone is written to.
    if (!c.reduce(span, span, comm::ReduceOp::sum, 0).ok()) return 1;
    std::size_t wrong = 0;
    for (const std::size_t i : marks) wrong += buffer.data[i] != (c.rank() == 0 ? 7 : 4);
    std::size_t sum = 0;
    if (c.rank() == 0)
      for (std::size_t i = 0; i < kCount; ++i) sum += buffer.data[i];
    wrong += c.rank() == 0 && sum != 7 * std::size(marks);
    return wrong == 0 ? kGood : 2;
  });
  CHECK(world.wait_for(0) == kGood);
  CHECK(world.wait_for(1) == kGood);
}
