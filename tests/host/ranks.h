#pragma once

/// Runs the ranks of a Host world for a test: as threads of this process, or as processes of their
/// own, which can be killed. A watchdog ends and names a test that hangs.

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/backends/host.h"
#include "comm/communicator.h"
#include "comm/rendezvous/listener.h"
#include "tests/host/children.h"

namespace ranks {

using HostCommunicator = comm::Communicator<comm::Host>;

/// Kills this process, by name, if the scope takes longer than any machine needs for it.
class Watchdog {
 public:
  explicit Watchdog(std::string name, unsigned seconds = 240) {
    current() = std::move(name);
    signal(SIGALRM, [](int) {
      const char text[] = "watchdog: hung in: ";
      (void)!write(2, text, sizeof text - 1);
      (void)!write(2, current().data(), current().size());
      (void)!write(2, "\n", 1);
      _exit(97);
    });
    alarm(seconds);
  }
  ~Watchdog() { alarm(0); }

 private:
  static std::string& current() {
    static std::string name;
    return name;
  }
};

/// Checks of threads are collected here, since doctest's assertions cost a lock each.
class Failures {
 public:
  void add(const std::string& text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (count_++ < 5) first_ += text + "\n";
  }
  int count() const { return count_; }
  const std::string& text() const { return first_; }

 private:
  std::mutex mutex_;
  int count_ = 0;
  std::string first_;
};

inline comm::LaunchConfig launch_of(int rank, int size,
                                    const std::shared_ptr<comm::Listener>& listener) {
  comm::LaunchConfig launch = comm::LaunchConfig::local(rank, size, listener->port());
  launch.init_timeout = std::chrono::seconds(60);
  if (rank == 0) launch.listener = listener;
  return launch;
}

inline std::shared_ptr<comm::Listener> new_listener() {
  auto listener = comm::Listener::bind("127.0.0.1", 0);
  REQUIRE_MESSAGE(listener.ok(), std::string(listener.message()));
  return std::move(*listener);
}

using Configure = std::function<void(comm::Host::Config&)>;

/// `body(communicator, failures)` on each of `size` threads, each a rank.
template <class Body>
void as_threads(int size, Body body, const Configure& configure = {}) {
  const auto listener = new_listener();
  Failures failures;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      comm::Host::Config config;
      config.launch = launch_of(rank, size, listener);
      config.collective_timeout = std::chrono::seconds(60);
      if (configure) configure(config);
      auto made = HostCommunicator::create(config);
      if (!made.ok()) return failures.add("create: " + std::string(made.message()));
      body(*made, failures);
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK_MESSAGE(failures.count() == 0, failures.text());
}

/// A process for each rank; the test ends them or waits for them.
class Processes {
 public:
  template <class Body>
  Processes(int size, Body body, const Configure& configure = {}, bool may_fail_to_start = false) {
    const auto listener = new_listener();
    std::fflush(nullptr);
    for (int rank = 0; rank < size; ++rank) {
      const pid_t pid = fork();
      REQUIRE(pid >= 0);
      if (pid == 0) {
        signal(SIGTERM, SIG_DFL);  // Not doctest's.
        alarm(120);
        comm::Host::Config config;
        config.launch = launch_of(rank, size, listener);
        config.collective_timeout = std::chrono::seconds(60);
        config.log = [](std::string_view) {};
        if (configure) configure(config);
        int status = 1;
        {
          auto made = HostCommunicator::create(config);
          if (made.ok())
            status = body(*made);
          else if (!may_fail_to_start)
            std::fprintf(stderr, "rank %d: create: %s\n", rank, made.message());
        }
        std::fflush(nullptr);
        _exit(status);
      }
      children_.add(pid);
    }
  }

  pid_t pid(int rank) const { return children_.pid(rank); }
  void kill_rank(int rank, int how = SIGKILL) { kill(pid(rank), how); }
  int wait_for(int rank) { return children_.wait_for(rank); }

 private:
  Children children_;
};

}  // namespace ranks
