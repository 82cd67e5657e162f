// What happens when ranks die, leave, disagree or are late: everybody is told the same, by name, soon.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <dirent.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <barrier>
#include <cstring>
#include <random>

#include "comm/float_types.h"
#include "tests/host/ranks.h"

namespace {

using comm::DeviceSpan;
using comm::Status;
using comm::StatusCode;
using ranks::Failures;
using ranks::HostCommunicator;
using ranks::Processes;
using ranks::Watchdog;

constexpr int kGood = 42;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

bool says(const Status& s, const std::string& words) {
  return std::string(s.message()).find(words) != std::string::npos;
}

/// Runs collectives of several sizes until one fails.
Status until_failure(HostCommunicator& c) {
  std::vector<float> buffer(100'000);
  for (int i = 0;; ++i) {
    const std::size_t n = i % 3 == 0 ? 1 : i % 3 == 1 ? 1000 : buffer.size();
    Status s = c.all_reduce(DeviceSpan(buffer.data(), n));
    if (!s.ok()) return s;
  }
}

std::vector<std::string> names_in(const char* folder) {
  std::vector<std::string> names;
  if (DIR* dir = opendir(folder); dir != nullptr) {
    while (const dirent* entry = readdir(dir)) names.emplace_back(entry->d_name);
    closedir(dir);
  }
  return names;
}

/// Abstract sockets of Host in this network namespace.
int host_sockets() {
  int count = 0;
  if (std::FILE* file = std::fopen("/proc/net/unix", "r"); file != nullptr) {
    char line[512];
    while (std::fgets(line, sizeof line, file) != nullptr)
      count += std::strstr(line, "@comm-host-") != nullptr;
    std::fclose(file);
  }
  return count;
}

/// Memory shared between the processes of a test, to see how far they are.
class Progress {
 public:
  Progress()
      : counts_(static_cast<std::atomic<int>*>(
            mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~Progress() { munmap(counts_, 4096); }
  std::atomic<int>& of(int rank) { return counts_[rank]; }
  void wait_until(int size, int at_least) {
    for (int r = 0; r < size; ++r)
      while (of(r).load() < at_least) std::this_thread::yield();
  }

 private:
  std::atomic<int>* counts_;
};

}  // namespace

TEST_CASE("a killed rank is named by every survivor, whichever it is") {
  for (const int size : {2, 4}) {
    for (int victim = 0; victim < size; ++victim) {
      const Watchdog watchdog("killed rank " + std::to_string(victim));
      Progress progress;
      Processes world(size, [&](HostCommunicator& c) {
        progress.of(c.rank()) = 1;
        const Status s = until_failure(c);
        const bool named =
            s.code() == StatusCode::peer_lost && says(s, "rank " + std::to_string(victim) + " ");
        if (!named) std::fprintf(stderr, "rank %d: %s\n", c.rank(), s.message());
        const Status later = c.barrier();
        const bool refused = later.code() == StatusCode::unhealthy && says(later, "barrier") &&
                             says(later, s.message() + std::string(s.message()).find(": ") + 2);
        if (!refused) std::fprintf(stderr, "rank %d later: %s\n", c.rank(), later.message());
        return named && refused && !c.is_healthy() ? kGood : 1;
      });
      progress.wait_until(size, 1);
      world.kill_rank(victim);
      const auto start = std::chrono::steady_clock::now();
      for (int r = 0; r < size; ++r) CHECK(world.wait_for(r) == (r == victim ? -SIGKILL : kGood));
      MESSAGE("world ", size, ", victim ", victim, ": all ended after ", seconds_since(start),
              " s");
    }
  }
}

TEST_CASE("a rank that waits asleep for a command is told of a dead peer") {
  const Watchdog watchdog("recv_command and a dead root");
  Progress progress;
  Processes world(3, [&](HostCommunicator& c) {
    progress.of(c.rank()) = 1;
    if (c.rank() == 0)
      for (;;) pause();
    std::uint32_t command = 0;
    const Status s = c.recv_command_u32(DeviceSpan(&command, 1), 0);
    return s.code() == StatusCode::peer_lost && says(s, "rank 0 ") ? kGood : 1;
  });
  progress.wait_until(3, 1);
  world.kill_rank(0, SIGTERM);
  CHECK(world.wait_for(0) == -SIGTERM);
  CHECK(world.wait_for(1) == kGood);
  CHECK(world.wait_for(2) == kGood);
}

TEST_CASE("waiting for a command costs next to no processor time, and the command arrives") {
  const Watchdog watchdog("idle command");
  Processes world(2, [](HostCommunicator& c) {
    std::uint32_t command = 7;
    if (c.rank() == 0) {
      usleep(1'500'000);  // What is measured is the other rank's idling.
      return c.broadcast(DeviceSpan(&command, 1), 0).ok() ? kGood : 1;
    }
    command = 0;
    const Status s = c.recv_command_u32(DeviceSpan(&command, 1), 0);
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const double used = static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                        1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    if (used > 0.5) std::fprintf(stderr, "idling took %.3f s\n", used);
    return s.ok() && command == 7 && used < 0.5 ? kGood : 1;
  });
  CHECK(world.wait_for(0) == kGood);
  CHECK(world.wait_for(1) == kGood);
}

TEST_CASE(
    "kills at random moments leave no shared memory, socket or process, and no other job notices") {
  const Watchdog watchdog("random kills");
  const auto shm_before = names_in("/dev/shm");
  const int sockets_before = host_sockets();
  Progress bystanders;
  Processes other(2, [&](HostCommunicator& c) {
    std::vector<int> x(1000, 1);
    while (bystanders.of(2) == 0 || c.rank() == 1) {
      // Rank 0 decides; both learn it in the same round.
      x[0] = c.rank() == 0 && bystanders.of(2) != 0 ? 1 : 0;
      if (!c.all_reduce(DeviceSpan(x)).ok()) return 1;
      if (x[0] != 0) return kGood;
    }
    x[0] = 1;
    return c.all_reduce(DeviceSpan(x)).ok() ? kGood : 1;
  });
  std::mt19937 random(20240607);
  for (int round = 0; round < 50; ++round) {
    const int size = 2 + round % 3;
    Processes world(
        size,
        [&](HostCommunicator& c) {
          until_failure(c).ignore();
          return kGood;
        },
        {}, true);
    // From within the rendezvous to the midst of the collectives.
    usleep(static_cast<useconds_t>(random() % 20'000));
    if (round % 2 == 0) world.kill_rank(static_cast<int>(random()) & 1);
    // The others are killed by the destructor.
  }
  bystanders.of(2) = 1;
  CHECK(other.wait_for(0) == kGood);
  CHECK(other.wait_for(1) == kGood);
  CHECK(names_in("/dev/shm") == shm_before);
  CHECK(host_sockets() == sockets_before);
  CHECK(waitpid(-1, nullptr, WNOHANG) == -1);
  CHECK(errno == ECHILD);
}

namespace {

/// Each rank makes a call of its own; all get the same mismatch, which names both.
template <class CallOf>
void mismatches(int size, const char* one, const char* two, CallOf call) {
  CAPTURE(one);
  const Watchdog watchdog(one);
  ranks::as_threads(size, [&](HostCommunicator& c, Failures& failures) {
    float before = 1;
    if (!c.all_reduce(DeviceSpan(&before, 1)).ok()) failures.add("the call before");
    const Status s = call(c);
    if (s.code() != StatusCode::mismatch || !says(s, one) || !says(s, two))
      failures.add(std::string("got: ") + s.message());
    const Status next = c.barrier();
    if (next.code() != StatusCode::unhealthy || !says(next, one)) failures.add("not refused");
    if (c.is_healthy()) failures.add("healthy");
  });
}

}  // namespace

TEST_CASE("different calls are a mismatch on all ranks, with both calls in the message") {
  std::vector<float> f(4096);
  const auto buffer = [&](HostCommunicator& c, std::size_t n) {
    return DeviceSpan(f.data() + c.rank() * 1000, n);
  };
  mismatches(3, "all_reduce(f32, 10 elements, sum)", "all_reduce(f32, 11 elements, sum)",
             [&](HostCommunicator& c) { return c.all_reduce(buffer(c, c.rank() == 2 ? 11 : 10)); });
  mismatches(2, "all_reduce(f32, 500 elements, sum)", "all_reduce(f32, 0 elements, sum)",
             [&](HostCommunicator& c) { return c.all_reduce(buffer(c, c.rank() == 1 ? 0 : 500)); });
  mismatches(2, "all_reduce(f32, 10 elements, sum)", "all_reduce(f32, 10 elements, max)",
             [&](HostCommunicator& c) {
               return c.all_reduce(buffer(c, 10),
                                   c.rank() == 0 ? comm::ReduceOp::sum : comm::ReduceOp::max);
             });
  mismatches(4, "broadcast(f32, 9 elements, root 0)", "broadcast(f32, 9 elements, root 1)",
             [&](HostCommunicator& c) { return c.broadcast(buffer(c, 9), c.rank() == 3 ? 1 : 0); });
  mismatches(2, "all_reduce(f32, 10 elements, sum)", "barrier()", [&](HostCommunicator& c) {
    return c.rank() == 0 ? c.all_reduce(buffer(c, 10)) : c.barrier();
  });
  mismatches(
      2, "all_reduce(f32, 100 elements, sum)", "reduce(f32, 100 elements, sum, root 0)",
      [&](HostCommunicator& c) {
        if (c.rank() == 0) return c.all_reduce(buffer(c, 100));
        return c.reduce(buffer(c, 100), buffer(c, 100), comm::ReduceOp::sum, 0).status().copy();
      });
  // bf16 and f32 of equal byte sizes.
  mismatches(2, "all_reduce(f32, 8 elements, sum)", "all_reduce(bf16, 16 elements, sum)",
             [&](HostCommunicator& c) {
               if (c.rank() == 0) return c.all_reduce(buffer(c, 8));
               return c.all_reduce(DeviceSpan(reinterpret_cast<comm::bf16*>(f.data() + 2000), 16));
             });
}

TEST_CASE("all_to_all_v: counts that do not fit together are a mismatch on all ranks") {
  ranks::as_threads(3, [](HostCommunicator& c, Failures& failures) {
    std::size_t counts[] = {1, 1, 1};
    std::size_t other[] = {1, c.rank() == 2 ? 2U : 1U, 1};
    float send[4] = {};
    float recv[4] = {};
    const Status s =
        c.all_to_all_v(DeviceSpan(send, 3), counts, DeviceSpan(recv, c.rank() == 2 ? 4 : 3), other)
            .status()
            .copy();
    if (s.code() != StatusCode::mismatch ||
        !says(s, "rank 1 sends 1 elements to rank 2, which expects 2"))
      failures.add(s.message());
  });
}

TEST_CASE(
    "all_to_all_v: who sends or receives nothing needs no buffer, however long the others take") {
  const auto small_slots = [](comm::Host::Config& config) { config.slot_bytes = 64 * 1024; };
  ranks::as_threads(
      3,
      [](HostCommunicator& c, Failures& failures) {
        // Rank 0 sends to rank 1, in many rounds; rank 2 only takes part.
        const std::size_t n = 100'000;
        const std::size_t sent[] = {0, c.rank() == 0 ? n : 0, 0};
        const std::size_t received[] = {c.rank() == 1 ? n : 0, 0, 0};
        const std::vector<int> x(sent[1], 7);
        std::vector<int> y(received[0]);
        const DeviceSpan<const int> from(x.empty() ? nullptr : x.data(), x.size());
        const DeviceSpan<int> to(y.empty() ? nullptr : y.data(), y.size());
        const Status s = c.all_to_all_v(from, sent, to, received).status().copy();
        if (!s.ok()) failures.add(s.message());
        if (c.rank() == 1 && y != std::vector<int>(n, 7)) failures.add("numbers");
      },
      small_slots);
}

TEST_CASE("recv_from: another size or type than was sent is a mismatch for both") {
  ranks::as_threads(2, [](HostCommunicator& c, Failures& failures) {
    std::vector<float> x(100'000);
    const Status s =
        c.rank() == 0 ? c.send_to(DeviceSpan(x), 1) : c.recv_from(DeviceSpan(x.data(), 99), 0);
    if (s.code() != StatusCode::mismatch ||
        !says(s, "rank 0 sends 100000 elements of f32 where rank 1 receives 99"))
      failures.add(s.message());
  });
}

TEST_CASE("a rank that is late is a timeout, which names it and what it was last seen doing") {
  ranks::as_threads(3, [](HostCommunicator& c, Failures& failures) {
    if (!c.barrier().ok()) failures.add("barrier");
    if (c.rank() == 2) {
      while (c.is_healthy()) std::this_thread::yield();
      return;
    }
    const Status s = c.barrier_wait(std::chrono::milliseconds(50));
    if (s.code() != StatusCode::timeout || !says(s, "rank 2 (last seen in barrier)") ||
        !says(s, "; ranks 0-1 came;"))
      failures.add(s.message());
    const Status later = c.barrier();
    if (later.code() != StatusCode::unhealthy || !says(later, "ranks 0-1 came"))
      failures.add(later.message());
  });
}

TEST_CASE("recv_from: whoever is not waited for is not said to have come") {
  ranks::as_threads(
      3,
      [](HostCommunicator& c, Failures& failures) {
        int x = 0;
        if (c.rank() != 0) {
          while (c.is_healthy()) std::this_thread::yield();
          return;
        }
        const Status s = c.recv_from(DeviceSpan(&x, 1), 2);
        if (s.code() != StatusCode::timeout || !says(s, "for rank 2 (") || says(s, "came"))
          failures.add(s.message());
      },
      [](comm::Host::Config& config) {
        config.collective_timeout = std::chrono::milliseconds(50);
      });
}

TEST_CASE("an error says operation, rank, world, epoch and number, and so does its cause") {
  std::barrier done(2);
  ranks::as_threads(2, [&](HostCommunicator& c, Failures& failures) {
    int x = 1;
    for (int i = 0; i < 4; ++i)
      if (!c.all_reduce(DeviceSpan(&x, 1)).ok()) failures.add("all_reduce");
    c.abort().ignore();
    done.arrive_and_wait();
    if (!c.attempt_reconnect().ok()) failures.add("attempt_reconnect");
    if (!c.all_reduce(DeviceSpan(&x, 1)).ok()) failures.add("all_reduce");
    done.arrive_and_wait();
    const std::string cause = "abort on rank 0 of 2 (epoch 1, seq 1): rank 0 called abort";
    if (c.rank() == 0) {
      const Status own = c.abort();
      if (!own.ok()) failures.add(own.message());
      done.arrive_and_wait();
      const Status s = c.barrier();
      if (!says(s, "First cause: " + cause)) failures.add(s.message());
      return;
    }
    done.arrive_and_wait();
    const Status first = c.barrier();
    if (first.message() != "barrier on rank 1 of 2 (epoch 1, seq 1): " + cause)
      failures.add(first.message());
    const Status later = c.all_reduce(DeviceSpan(&x, 1));
    if (later.message() !=
        "all_reduce on rank 1 of 2 (epoch 1, seq 1): refused, the communicator is "
        "unhealthy. First cause: " +
            cause + ". Call attempt_reconnect on every rank")
      failures.add(later.message());
  });
}

TEST_CASE(
    "a rank that has left is named by those that wait for it, and what it did before counts") {
  std::atomic<bool> received{false};
  ranks::as_threads(3, [&](HostCommunicator& c, Failures& failures) {
    std::vector<int> x(10, 1);
    if (c.rank() == 2) {
      if (!c.send_to(DeviceSpan(x), 0).ok()) failures.add("send");
      return;  // Leaves.
    }
    if (c.rank() == 0) {
      if (!c.recv_from(DeviceSpan(x), 2).ok()) failures.add("recv after the sender left");
      received = true;
    }
    // The first barrier fails on all ranks, also on one that is not there yet.
    while (!received) std::this_thread::yield();
    const Status s = c.barrier();
    const bool is_told = s.code() == StatusCode::peer_lost || s.code() == StatusCode::unhealthy;
    if (!is_told || !says(s, "rank 2 has left")) failures.add(s.message());
  });
}

TEST_CASE("abort, from any thread, ends what waits on all ranks") {
  ranks::as_threads(2, [](HostCommunicator& c, Failures& failures) {
    if (c.rank() == 1) {
      std::uint32_t command = 0;
      const Status s = c.recv_command_u32(DeviceSpan(&command, 1), 0);
      if (s.code() != StatusCode::unhealthy || !says(s, "rank 0 called abort"))
        failures.add(s.message());
      return;
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) threads.emplace_back([&] { c.abort().ignore(); });
    for (std::thread& t : threads) t.join();
    if (c.is_healthy() || c.barrier().code() != StatusCode::unhealthy)
      failures.add("still healthy");
  });
}

TEST_CASE("the child of a fork cannot use its copy, and the parent goes on") {
  const Watchdog watchdog("fork");
  Processes world(2, [](HostCommunicator& c) {
    const pid_t child = fork();
    if (child == 0) {
      float x = 1;
      const Status s = c.all_reduce(DeviceSpan(&x, 1));
      const bool refused = s.code() == StatusCode::unhealthy && says(s, "fork") &&
                           !c.is_healthy() && !c.abort().ok();
      { HostCommunicator gone(std::move(c)); }
      _exit(refused ? kGood : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    float x = 1;
    return WEXITSTATUS(status) == kGood && c.all_reduce(DeviceSpan(&x, 1)).ok() && x == 2 ? kGood
                                                                                          : 1;
  });
  CHECK(world.wait_for(0) == kGood);
  CHECK(world.wait_for(1) == kGood);
}

TEST_CASE("a moved-from handle refuses every operation") {
  ranks::as_threads(1, [](HostCommunicator& c, Failures& failures) {
    HostCommunicator other(std::move(c));
    float x = 1;
    if (c.rank() != -1 || c.is_healthy() || c.epoch() != 0) failures.add("not empty");
    if (c.all_reduce(DeviceSpan(&x, 1)).ok() || c.barrier().ok() || c.split(0, 0).ok() ||
        c.symmetric_alloc(8).ok() || c.group_start().ok() || c.group_end().ok() ||
        c.attempt_reconnect().ok() || c.abort().ok() || c.synchronize().ok())
      failures.add("not refused");
    if (!other.all_reduce(DeviceSpan(&x, 1)).ok()) failures.add("the new handle");
  });
}

TEST_CASE(
    "too little room for the shared memory is an error on every rank that says so, and no signal") {
  const Watchdog watchdog("limited file size");
  for (const rlim_t limit : {rlim_t{4096}, rlim_t{2} << 20, rlim_t{3} << 20}) {
    const auto listener = ranks::new_listener();
    pid_t pids[2];
    for (int rank = 0; rank < 2; ++rank) {
      pids[rank] = fork();
      if (pids[rank] == 0) {
        const rlimit small{limit, limit};
        setrlimit(RLIMIT_FSIZE, &small);
        comm::Host::Config config;
        config.launch = ranks::launch_of(rank, 2, listener);
        config.slot_bytes = 1 << 20;
        config.log = [](std::string_view) {};
        auto made = HostCommunicator::create(config);
        const std::string text = made.ok() ? "" : made.message();
        const bool good = text.find("limit on file sizes") != std::string::npos &&
                          text.find("bytes") != std::string::npos;
        if (!good) std::fprintf(stderr, "rank %d: %s\n", rank, text.c_str());
        _exit(good ? kGood : 1);
      }
    }
    for (const pid_t pid : pids) {
      int status = 0;
      waitpid(pid, &status, 0);
      CHECK(WIFEXITED(status));
      CHECK(WEXITSTATUS(status) == kGood);
    }
  }
}
