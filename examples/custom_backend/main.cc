// A backend of one's own under comm's face: four ranks, which here are threads, find the largest of
// their numbers and pass their ranks round the ring.
//
//   ./bazelw run //examples:custom_backend

#include <cstdio>
#include <thread>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "examples/custom_backend/loopback.h"

namespace {

using Communicator = comm::Communicator<example::Loopback>;

comm::Status work(Communicator& c) {
  const int n = c.world_size(), next = (c.rank() + 1) % n, previous = (c.rank() + n - 1) % n;
  int largest = c.rank() * c.rank();
  comm::Status s = c.all_reduce(comm::DeviceSpan(&largest, 1), comm::ReduceOp::max);
  if (!s.ok()) return s;
  const int mine = c.rank();
  int neighbour = -1;
  auto passed =
      c.send_recv(comm::DeviceSpan(&mine, 1), next, comm::DeviceSpan(&neighbour, 1), previous);
  if (!passed.ok()) return std::move(passed).status();
  std::printf("rank %d of %d: the largest is %d, on my left is rank %d\n", c.rank(), n, largest,
              neighbour);
  return {};
}

}  // namespace

int main() {
  std::vector<Communicator> ranks;
  for (example::Loopback& rank : example::Loopback::world(4)) {
    ranks.emplace_back(std::move(rank));
  }
  std::vector<comm::Status> outcomes(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    threads.emplace_back([&, r] { outcomes[r] = work(ranks[r]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const comm::Status& s : outcomes) {
    if (s.ok()) continue;
    std::fprintf(stderr, "custom_backend: %s\n", s.message());
    return 1;
  }
  return 0;
}
