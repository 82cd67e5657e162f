// What it costs N ranks to meet: rendezvous_bench [SIZE...]
//
// Each size runs in a process of its own, with a thread for each rank, over loopback TCP, with a
// secret. "form" is the time until the last rank has joined, threads made beforehand; "CPU" is what
// the whole process used for it, all ranks together; "barrier" and "gather" (64 bytes from each) are
// one exchange; "compare" is one of fingerprints of 48 bytes that agree, as Checked makes before each
// call, with the bytes for each rank; "leave" ends it. Bytes are what loopback carried, headers included. The better of
// three runs counts.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "comm/rendezvous/listener.h"
#include "comm/rendezvous/out_of_band.h"

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

struct Figures {
  bool ok = false;
  double form_ms = 0, cpu_ms = 0, barrier_ms = 0, gather_ms = 0, leave_ms = 0;
  double compare_ms = 0, compare_bytes = 0;
  double bytes = 0;
  double memory_kib = 0;
};

double cpu_ms() {
  rusage u{};
  ::getrusage(RUSAGE_SELF, &u);
  const auto ms = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) / 1e3;
  };
  return ms(u.ru_utime) + ms(u.ru_stime);
}

double memory_kib() {
  rusage u{};
  ::getrusage(RUSAGE_SELF, &u);
  return static_cast<double>(u.ru_maxrss);
}

double loopback_bytes() {
  std::FILE* file = std::fopen("/sys/class/net/lo/statistics/tx_bytes", "r");
  double bytes = 0;
  if (file == nullptr) return 0;
  if (std::fscanf(file, "%lf", &bytes) != 1) bytes = 0;
  std::fclose(file);
  return bytes;
}

Figures measure(int size) {
  auto listener = comm::Listener::bind("127.0.0.1", 0);
  if (!listener.ok()) return {};
  Figures f;
  std::atomic<int> failed{0};
  Clock::time_point last;
  double cpu_before = 0, bytes_before = 0;
  int phase = 0;
  // Runs on one thread each time all ranks have come: reads the clock between two phases.
  auto between = [&]() noexcept {
    const Clock::time_point now = Clock::now();
    const double ms = std::chrono::duration<double, std::milli>(now - last).count();
    switch (phase++) {
      case 0:
        cpu_before = cpu_ms();
        bytes_before = loopback_bytes();
        f.memory_kib = memory_kib();
        break;
      case 1:
        f.form_ms = ms;
        f.cpu_ms = cpu_ms() - cpu_before;
        f.bytes = loopback_bytes() - bytes_before;
        f.memory_kib = memory_kib() - f.memory_kib;
        break;
      case 2: f.barrier_ms = ms; break;
      case 3:
        f.gather_ms = ms;
        bytes_before = loopback_bytes();
        break;
      case 4:
        f.compare_ms = ms;
        f.compare_bytes = loopback_bytes() - bytes_before;
        break;
      case 5: f.leave_ms = ms; break;
    }
    last = Clock::now();
  };
  std::barrier step(size, between);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      comm::RendezvousConfig config;
      config.launch = comm::LaunchConfig::local(rank, size, (*listener)->port());
      config.launch.secret = "benchmark";
      config.launch.init_timeout = seconds(120);
      config.backend = "bench";
      if (rank == 0) config.launch.listener = *listener;
      step.arrive_and_wait();
      auto channel = comm::OutOfBand::join(std::move(config));
      if (!channel.ok() && failed++ == 0) std::fprintf(stderr, "%s\n", channel.message());
      step.arrive_and_wait();
      if (channel.ok() && !(*channel)->barrier(seconds(60)).ok()) ++failed;
      step.arrive_and_wait();
      const std::byte mine[64] = {};
      if (channel.ok() && !(*channel)->all_gather(mine, seconds(60)).ok()) ++failed;
      step.arrive_and_wait();
      std::byte fingerprint[48] = {};
      fingerprint[40] = static_cast<std::byte>(rank);  // Of a number that is added up.
      const comm::OutOfBand::Among all{.id = 1, .rank = rank, .size = size, .sums_last = true};
      if (channel.ok() && !(*channel)->gather_among(all, fingerprint, seconds(60)).ok()) ++failed;
      step.arrive_and_wait();
      if (channel.ok()) (*channel)->leave();
      step.arrive_and_wait();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  f.ok = failed == 0;
  return f;
}

// In a process of its own, so that memory and CPU are this size's alone.
Figures measure_apart(int size) {
  int ends[2];
  if (::pipe(ends) != 0) return {};
  const pid_t child = ::fork();
  if (child == 0) {
    const Figures f = measure(size);
    const bool written = ::write(ends[1], &f, sizeof f) == static_cast<ssize_t>(sizeof f);
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  Figures f;
  if (::read(ends[0], &f, sizeof f) != static_cast<ssize_t>(sizeof f)) f = {};
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return f;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int> sizes;
  for (int i = 1; i < argc; ++i) {
    const int size = std::atoi(argv[i]);
    if (size < 1 || size > 16384) {
      std::fprintf(stderr, "usage: rendezvous_bench [SIZE...], each from 1 to 16384 ranks\n");
      return 2;
    }
    sizes.push_back(size);
  }
  if (sizes.empty()) sizes = {2, 16, 128, 1024, 4096};
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);

  std::printf("%6s %10s %10s %10s %10s %10s %10s %10s %12s %10s %10s\n", "ranks", "form ms",
              "CPU ms", "barrier ms", "gather ms", "compare ms", "its B/rank", "leave ms",
              "form bytes", "bytes/rank", "KiB/rank");
  int status = 0;
  Figures before;
  int size_before = 0;
  for (const int size : sizes) {
    Figures best;
    for (int run = 0; run < 3; ++run) {
      const Figures f = measure_apart(size);
      if (f.ok && (!best.ok || f.cpu_ms < best.cpu_ms)) best = f;
    }
    if (!best.ok) {
      std::printf("%6d failed (two descriptors a rank are needed; the limit is %llu)\n", size,
                  static_cast<unsigned long long>(limit.rlim_cur));
      status = 1;
      continue;
    }
    std::printf("%6d %10.2f %10.2f %10.2f %10.2f %10.2f %10.0f %10.2f %12.0f %10.0f %10.1f\n", size,
                best.form_ms, best.cpu_ms, best.barrier_ms, best.gather_ms, best.compare_ms,
                best.compare_bytes / size, best.leave_ms, best.bytes, best.bytes / size,
                best.memory_kib / size);
    if (before.ok) {
      std::printf("%6s ranks x%.1f: form x%.1f, CPU x%.1f, bytes x%.1f\n", "",
                  static_cast<double>(size) / size_before, best.form_ms / before.form_ms,
                  best.cpu_ms / before.cpu_ms, best.bytes / before.bytes);
    }
    before = best;
    size_before = size;
  }
  return status;
}
