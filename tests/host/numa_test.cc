// Where the memory of ranks lies: pieces are their owners', and the kernel is told so before any page is there.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "comm/backends/host/numa.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "comm/backends/host/shared_file.h"

namespace {

using comm::detail::host::current_node;
using comm::detail::host::Layout;
using comm::detail::host::Piece;
using comm::detail::host::pieces_of;
using comm::detail::host::prefer_node;
using comm::detail::host::SharedFile;

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// What the kernel says of the mapping at `base`: its policy, and how many of its pages are on which
/// node. Empty where this kernel does not know of NUMA.
std::string numa_map(const std::byte* base) {
  std::string found;
  char line[512];
  char address[32];
  std::snprintf(address, sizeof address, "%lx ", reinterpret_cast<unsigned long>(base));
  if (std::FILE* file = std::fopen("/proc/self/numa_maps", "r"); file != nullptr) {
    while (std::fgets(line, sizeof line, file) != nullptr)
      if (std::strncmp(line, address, std::strlen(address)) == 0) found = line;
    std::fclose(file);
  }
  return found;
}

/// Whether the kernel takes such advice here at all; containers often forbid it.
bool takes_advice() {
  const std::size_t page = 4096;
  void* memory = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  errno = 0;
  const bool takes = prefer_node(memory, page, current_node());
  munmap(memory, page);
  if (!takes) MESSAGE("mbind: ", std::strerror(errno));
  CHECK((takes || errno == EPERM || errno == ENOSYS));
  return takes;
}

int pages_of(const std::string& map, int node) {
  const std::size_t at = map.find(" N" + std::to_string(node) + "=");
  return at == std::string::npos ? 0 : std::atoi(map.c_str() + map.find('=', at) + 1);
}

}  // namespace

TEST_CASE("reserve: each piece is taken from its node, for every process that maps the file") {
  auto file = SharedFile::create();
  REQUIRE(file.ok());
  const int node = current_node();
  const Piece pieces[] = {{kMiB, kMiB, node}};
  auto place = file->reserve(2 * kMiB, "a test", pieces);
  REQUIRE(place.ok());
  auto rest = file->map(*place, kMiB);
  auto owned = file->map(*place + kMiB, kMiB);
  REQUIRE(rest.ok());
  REQUIRE(owned.ok());
  // Only what is touched is counted in a mapping.
  for (std::size_t at = 0; at < kMiB; at += 4096) owned->base()[at] = std::byte{1};
  if (!takes_advice()) return;
  const std::string map = numa_map(owned->base());
  CAPTURE(map);
  CHECK(map.find(" prefer") != std::string::npos);
  CHECK(pages_of(map, node) >= 1);
  CHECK(numa_map(rest->base()).find(" prefer") == std::string::npos);
}

TEST_CASE("reserve: a node that is not there is no failure") {
  auto file = SharedFile::create();
  REQUIRE(file.ok());
  for (const int node : {-1, 900, 1023, 1024, 1'000'000}) {
    const Piece pieces[] = {{0, kMiB, node}};
    auto place = file->reserve(kMiB, "a test", pieces);
    REQUIRE(place.ok());
    auto mapping = file->map(*place, kMiB);
    REQUIRE(mapping.ok());
    std::memset(mapping->base(), 7, kMiB);
  }
}

TEST_CASE("pieces_of: slots and rings are their writer's, whole pages, and nobody else's") {
  for (const int n : {2, 3, 8, 64}) {
    const Layout layout = Layout::of(n, 128 * 1024);
    std::vector<int> nodes(static_cast<std::size_t>(n));
    for (std::size_t r = 0; r < nodes.size(); ++r) nodes[r] = static_cast<int>(r);
    std::vector<int> owner(layout.total() / 4096, -1);
    for (const Piece& piece : pieces_of(layout, nodes)) {
      REQUIRE(piece.offset % 4096 == 0);
      REQUIRE(piece.bytes % 4096 == 0);
      REQUIRE(piece.offset + piece.bytes <= layout.total());
      for (std::size_t at = piece.offset; at < piece.offset + piece.bytes; at += 4096) {
        CHECK(owner[at / 4096] == -1);
        owner[at / 4096] = piece.node;
      }
    }
    int wrong = 0;
    const auto check = [&](std::size_t begin, std::size_t bytes, std::size_t rank) {
      for (std::size_t at = begin; at < begin + bytes; at += 4096)
        wrong += owner[at / 4096] != static_cast<int>(rank);
    };
    for (std::size_t r = 0; r < nodes.size(); ++r) {
      check(layout.slots() + 2 * r * layout.slot_bytes, 2 * layout.slot_bytes, r);
      check(layout.outs() + 2 * r * layout.out_bytes, 2 * layout.out_bytes, r);
      for (std::size_t to = 0; to < nodes.size(); ++to)
        check(layout.ring_data() + (r * layout.n + to) * layout.ring_bytes, layout.ring_bytes, r);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("pieces_of: a symmetric block is its rank's; on one node there is nothing to say") {
  const int two[] = {1, 0};
  const std::vector<Piece> pieces = pieces_of(kMiB, two);
  REQUIRE(pieces.size() == 2);
  CHECK((pieces[0].offset == 0 && pieces[0].bytes == kMiB && pieces[0].node == 1));
  CHECK((pieces[1].offset == kMiB && pieces[1].bytes == kMiB && pieces[1].node == 0));
  const int one[] = {1, 1, 1};
  CHECK(pieces_of(kMiB, one).empty());
  CHECK(pieces_of(Layout::of(3, 0), one).empty());
}
