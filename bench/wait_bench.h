#pragma once

/// What a wait costs: how long after the event a waiting thread goes on, and the processor time it
/// takes while nothing happens. Beside comm's own, a plain spin and a plain sleep of 1 ms.

#include <dirent.h>
#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace comm::bench {

inline double now_us() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
}

inline void sleep_us(double us) {
  const timespec t{static_cast<time_t>(us / 1e6),
                   static_cast<long>(static_cast<std::int64_t>(us * 1e3) % 1'000'000'000)};
  nanosleep(&t, nullptr);
}

/// Processor time of this process, in microseconds.
inline double used_us() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/// Processor time of comm's own threads and of the one that waits, in microseconds: those whose names
/// begin with "comm-". What is left of `used_us` is the simulation's and this program's.
inline double used_by_comm_us() {
  double ns = 0;
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return 0;
  while (const dirent* entry = readdir(tasks)) {
    const std::string task = std::string("/proc/self/task/") + entry->d_name;
    char name[32] = "";
    double ran_ns = 0;
    if (std::FILE* file = std::fopen((task + "/comm").c_str(), "re"); file != nullptr) {
      (void)!std::fscanf(file, "%31s", name);
      std::fclose(file);
    }
    if (std::string(name).rfind("comm-", 0) != 0) continue;
    if (std::FILE* file = std::fopen((task + "/schedstat").c_str(), "re"); file != nullptr) {
      (void)!std::fscanf(file, "%lf", &ran_ns);
      std::fclose(file);
    }
    ns += ran_ns;
  }
  closedir(tasks);
  return ns * 1e-3;
}

struct Waits {
  std::vector<double> late_us;
  double busy = 0;          ///< Share of one core while idle.
  double busy_of_comm = 0;  ///< The part of it that is comm's own threads'.
  double busy_later = 0;    ///< The same in the second half of the last wait.

  double at(double part) {
    std::sort(late_us.begin(), late_us.end());
    return late_us.empty()
               ? 0
               : late_us[static_cast<std::size_t>(part * static_cast<double>(late_us.size() - 1))];
  }
};

/// A pair that waits and is woken: `wait(i)` returns when `wake(i)` was called, from another thread.
struct Pair {
  std::function<void(int)> wait;
  std::function<void(int)> wake;
};

/// `delay_us` passes from the begin of each wait to its end.
inline Waits measure(const Pair& pair, double delay_us, int times) {
  Waits waits;
  std::atomic<int> waiting{-1};
  std::vector<double> woken(static_cast<std::size_t>(times)), went_on(woken);
  const double began = now_us(), used = used_us(), used_by_comm = used_by_comm_us();
  double comm_us = 0;
  std::thread waiter([&] {
    (void)pthread_setname_np(pthread_self(), "comm-waiter");
    for (int i = 0; i < times; ++i) {
      waiting.store(i);
      pair.wait(i);
      went_on[static_cast<std::size_t>(i)] = now_us();
    }
  });
  for (int i = 0; i < times; ++i) {
    while (waiting.load() < i) std::this_thread::yield();
    double half = 0, used_by_half = 0;
    if (times == 1) {
      sleep_us(delay_us / 2);
      half = now_us();
      used_by_half = used_by_comm_us();
    }
    // In one sleep where it is short: the kernel makes each some 50 us longer.
    sleep_us(times == 1 ? delay_us / 2 : delay_us);
    if (times == 1) {
      comm_us = used_by_comm_us() - used_by_comm;
      waits.busy_later = (used_by_comm + comm_us - used_by_half) / (now_us() - half);
    }
    woken[static_cast<std::size_t>(i)] = now_us();
    pair.wake(i);
  }
  waiter.join();
  waits.busy = (used_us() - used) / (now_us() - began);
  waits.busy_of_comm = comm_us / (now_us() - began);
  for (std::size_t i = 0; i < woken.size(); ++i) waits.late_us.push_back(went_on[i] - woken[i]);
  return waits;
}

inline Pair plain_spin(std::atomic<int>& flag) {
  return {[&](int i) {
            while (flag.load() <= i) {
            }
          },
          [&](int i) { flag.store(i + 1); }};
}

inline Pair plain_sleep(std::atomic<int>& flag) {
  return {[&](int i) {
            while (flag.load() <= i) sleep_us(1000);
          },
          [&](int i) { flag.store(i + 1); }};
}

/// Asleep in the kernel until woken: what the process itself takes, without anybody who looks.
inline Pair asleep(std::atomic<int>& flag) {
  return {[&](int i) {
            for (int seen = flag.load(); seen <= i; seen = flag.load()) flag.wait(seen);
          },
          [&](int i) {
            flag.store(i + 1);
            flag.notify_all();
          }};
}

/// One row for each way to wait: lateness after short and long waits, and the share of a core that an
/// idle wait of `idle_s` takes.
inline void report(const std::string& name, const std::function<Pair()>& make, double idle_s) {
  Waits brief = measure(make(), 50, 400);
  Waits longer = measure(make(), 5000, 100);
  Waits idle = measure(make(), idle_s * 1e6, 1);
  std::printf("| %s | %.0f / %.0f | %.0f / %.0f | %.2f %% | %.2f %% | %.2f %% |\n", name.c_str(),
              brief.at(0.5), brief.at(0.99), longer.at(0.5), longer.at(0.99), idle.busy * 100,
              idle.busy_of_comm * 100, idle.busy_later * 100);
  std::fflush(stdout);
}

/// What a call takes that is refused, which `call` is to be: the medians of batches of 100 are what
/// the text below the tables says.
inline void report_refusal(const std::string& name, const std::function<void()>& call) {
  std::vector<double> each_ns;
  for (int batch = 0; batch < 200; ++batch) {
    const double began = now_us();
    for (int i = 0; i < 100; ++i) call();
    each_ns.push_back((now_us() - began) * 10);
  }
  std::sort(each_ns.begin(), each_ns.end());
  std::printf("refused %s: %.0f ns (p99 %.0f)\n", name.c_str(), each_ns[each_ns.size() / 2],
              each_ns[each_ns.size() * 99 / 100]);
}

inline void heading() {
  std::printf(
      "| wait | after 50 us, late by us (p50 / p99) | after 5 ms | idle | of that comm's threads "
      "| in its second half |\n|---|---|---|---|---|---|\n");
}

}  // namespace comm::bench
