// Calls all_reduce in several ways, for callgrind to count (measure.py): it collects in the functions
// called measured_*, and dumps after each finish_way. Prints the ways in their order, with the number
// of calls of each.

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "bench/instructions/idle_backend.h"
#include "comm/backends/host.h"
#include "comm/backends/single_gpu.h"
#include "comm/communicator.h"
#include "comm/decorators/checked.h"
#include "comm/decorators/logged.h"
#include "comm/decorators/recorded.h"
#include "comm/rendezvous/listener.h"

namespace {

using comm::Communicator;
using comm::DeviceSpan;
using comm::bench::Idle;

constexpr int kCalls = 500;

void must(const comm::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message());
  std::exit(1);
}

[[gnu::noinline]] void finish_way(const char* way, int calls) {
  std::printf("%d %s\n", calls, way);
  std::fflush(stdout);
}

// What any loop of an engine costs.
[[gnu::noinline]] void measured_loop(DeviceSpan<float> buffer, int times) {
  for (int i = 0; i < times; ++i) asm volatile("" : "+r"(buffer));
}

template <class B>
[[gnu::noinline]] void measured_all_reduce(Communicator<B>& c, DeviceSpan<float> buffer,
                                           int times) {
  for (int i = 0; i < times; ++i) {
    asm volatile("" : "+r"(buffer));  // Unknown, as to an engine.
    if (comm::Status s = c.all_reduce(buffer); !s.ok()) [[unlikely]]
      must(s);
  }
}

template <class B>
void count_alone(const char* way, B backend) {
  Communicator<B> c(std::move(backend));
  std::vector<float> memory(2);
  must(c.all_reduce(DeviceSpan<float>(memory)));  // What is done once is not counted.
  measured_all_reduce(c, DeviceSpan<float>(memory), kCalls);
  finish_way(way, kCalls);
}

// Rank 0 is the one that is counted. Rank 1 is always ahead of it: in each call by the time rank 0
// begins it, so that rank 0 never waits.
void count_host(const char* way, Communicator<comm::Host>& c, std::size_t count,
                std::atomic<int>& begun) {
  std::vector<float> memory(count);
  const DeviceSpan<float> buffer(memory);
  for (int i = 0; i < 1 + kCalls; ++i) {
    if (c.rank() == 1) {
      begun.fetch_add(1);
      must(c.all_reduce(buffer));
      continue;
    }
    while (begun.load() <= i) std::this_thread::yield();
    for (int turn = 0; turn < 3; ++turn) std::this_thread::yield();  // It announces, then calls.
    if (i == 0)
      must(c.all_reduce(buffer));
    else
      measured_all_reduce(c, buffer, 1);
  }
  if (c.rank() == 0) finish_way(way, kCalls);
}

void count_host() {
  auto listener = comm::Listener::bind("127.0.0.1", 0);
  must(listener.status());
  std::atomic<int> begun[2] = {0, 0};
  const auto body = [&](int rank) {
    comm::Host::Config config;
    config.launch = comm::LaunchConfig::local(rank, 2, (*listener)->port());
    if (rank == 0) config.launch->listener = *listener;
    auto c = Communicator<comm::Host>::create(config);
    must(c.status());
    count_host("Host, 8 B", *c, 2, begun[0]);
    count_host("Host, 4 KiB", *c, 1024, begun[1]);
  };
  std::thread other(body, 1);
  body(0);
  other.join();
}

}  // namespace

int main() {
  std::vector<float> memory(2);
  measured_loop(DeviceSpan<float>(memory), kCalls);
  finish_way("loop", kCalls);
  count_alone("SingleGpu", comm::SingleGpu());
  count_alone("Idle", Idle());
  count_alone("Recorded<Idle>", comm::Recorded(Idle()));
  count_alone("Checked<Idle>", comm::Checked(Idle()));
  count_alone("Logged<Idle>", comm::Logged(Idle()));
  count_host();
  return 0;
}
