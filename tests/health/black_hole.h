#pragma once

/// Ranks as processes, each with a network of its own, and the cable of one of them is pulled: what
/// every other waits for ends and names it, and so does the cut rank's own wait; a cut that is over
/// soon is not noticed at all. `Setup` says what is the backend's:
///
///     struct Setup {
///       using Backend = ...;
///       static Backend::Config config(int rank);    // But for `launch`.
///       struct Numbers { DeviceSpan<int> span(); void fill(int); bool all_are(int); };
///       static constexpr bool kLosesData;           // Whether the next does anything:
///       static void lose_data();                    // From now on no rank's data arrives, either.
///       static auto ear(Communicator<Backend>&);    // A callable: the data path reports no error.
///     };

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/launch/launch_config.h"
#include "tests/health/board.h"
#include "tests/health/network.h"
#include "tests/host/children.h"

namespace comm::test {

inline constexpr int kRanks = 3;
inline constexpr int kGood = 42;
inline constexpr std::chrono::milliseconds kPeerTimeout{2000};
inline constexpr std::chrono::seconds kDeadline{60};
/// A probe of the kernel's may just have been answered; what else the machine does comes on top.
inline constexpr std::int64_t kBoundMs = kPeerTimeout.count() * 4 / 3 + 15'000;

enum class Wait { synchronize, ticket, barrier_wait, command };
inline constexpr Wait kWaits[] = {Wait::synchronize, Wait::ticket, Wait::barrier_wait,
                                  Wait::command};
constexpr const char* name_of(Wait wait) {
  constexpr const char* kNames[] = {"synchronize", "ticket", "barrier_wait", "recv_command_u32"};
  return kNames[static_cast<int>(wait)];
}

/// What the processes of a case share.
struct Scene {
  std::atomic<int> ready{0};
  std::atomic<int> stage{0};
  std::atomic<std::int64_t> cut{0};
  std::atomic<std::int64_t> slowest{0};  ///< From the cut to the last rank that was told, in ms.

  static Scene& make() {
    void* memory =
        mmap(nullptr, sizeof(Scene), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    return *::new (memory) Scene;
  }
  /// False: it took longer than any machine needs.
  bool wait_for_ready(int count) const {
    for (const std::int64_t end = now_ms() + 30'000; ready.load() < count; usleep(1000))
      if (now_ms() > end) return false;
    return true;
  }
  void told() {
    const std::int64_t took = now_ms() - cut.load();
    std::int64_t slowest_yet = slowest.load();
    while (took > slowest_yet && !slowest.compare_exchange_weak(slowest_yet, took)) {
    }
  }
};

/// A job of three ranks in the network. All of it ends with this object, at the latest.
class Job {
 public:
  /// `rank_main(launch)` is a rank's life; what it returns is its process' exit status.
  template <class RankMain>
  Job(const Network& network, RankMain rank_main) {
    const std::shared_ptr<Listener> listener = network.listen();
    REQUIRE(listener != nullptr);
    std::fflush(nullptr);
    for (int rank = 0; rank < kRanks; ++rank) {
      const pid_t pid = fork();
      REQUIRE(pid >= 0);
      if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(50);
        network.enter(rank);
        LaunchConfig launch = LaunchConfig::local(rank, kRanks, listener->port());
        launch.root_address = Network::address_of(0);
        if (rank == 0) launch.listener = listener;
        launch.init_timeout = kDeadline;
        launch.peer_timeout = kPeerTimeout;
        const int status = rank_main(std::move(launch));
        std::fflush(nullptr);
        _exit(status);
      }
      children_.add(pid);
    }
  }

  int wait_for(int rank) { return children_.wait_for(rank); }

 private:
  ranks::Children children_;
};

/// Where a process says what it found wrong.
class Complaints {
 public:
  explicit Complaints(std::string who) : who_(std::move(who)) {}
  void expect(bool condition, const std::string& what) {
    if (condition) return;
    std::fprintf(stderr, "%s: %s\n", who_.c_str(), what.c_str());
    ++count_;
  }
  int status() const { return count_ == 0 ? kGood : 1; }

 private:
  std::string who_;
  int count_ = 0;
};

/// "rank 1 is lost", "rank 1 (pid 12 on host) is lost".
inline bool says_lost(const std::string& text, int rank) {
  const std::string who = "rank " + std::to_string(rank);
  if (text.find(who + " is lost") != std::string::npos) return true;
  const std::size_t at = text.find(who + " (pid ");
  const std::size_t end = at == std::string::npos ? at : text.find(')', at);
  return end != std::string::npos && text.compare(end, 9, ") is lost") == 0;
}

/// "it, or rank 2 itself, is cut off".
inline bool doubts(const std::string& text, int rank) {
  return text.find("rank " + std::to_string(rank) + " itself, is cut off") != std::string::npos;
}

template <class Setup>
class BlackHole {
 public:
  using C = Communicator<typename Setup::Backend>;

  /// Made once in a process, while that has one thread.
  BlackHole() : network_(Network::make(kRanks, why_)) {
    if (network_ == nullptr) MESSAGE("NOT RUN: ", why_);
  }

  /// One job for each kind of wait, and one cable that all of them lose.
  void swallows(int victim) const {
    if (network_ == nullptr) return;
    std::vector<Scene*> scenes;
    std::vector<std::unique_ptr<Job>> jobs;
    for (const Wait wait : kWaits) {
      Scene& scene = *scenes.emplace_back(&Scene::make());
      jobs.push_back(std::make_unique<Job>(*network_, [&](LaunchConfig launch) {
        return is_told(std::move(launch), wait, victim, scene);
      }));
    }
    for (const Scene* scene : scenes) REQUIRE(scene->wait_for_ready(kRanks));
    for (Scene* scene : scenes) scene->cut.store(now_ms());
    network_->cut(victim, Network::Cut::dark);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const std::string wait = name_of(kWaits[i]);
      CAPTURE(wait);
      for (int r = 0; r < kRanks; ++r) CHECK(jobs[i]->wait_for(r) == kGood);
      MESSAGE("rank ", victim, " is cut off, ", wait, ": told within ", scenes[i]->slowest.load(),
              " ms");
    }
    network_->mend(victim);
  }

  /// Less than the time after which a silence counts.
  void passes(int victim, int milliseconds) const {
    if (network_ == nullptr) return;
    Scene& scene = Scene::make();
    Job job(*network_, [&](LaunchConfig launch) { return goes_on(std::move(launch), scene); });
    REQUIRE(scene.wait_for_ready(kRanks));
    network_->cut(victim, Network::Cut::dark);
    scene.stage.store(1);
    usleep(static_cast<useconds_t>(milliseconds) * 1000);
    network_->mend(victim);
    scene.stage.store(2);
    for (int r = 0; r < kRanks; ++r) CHECK(job.wait_for(r) == kGood);
  }

 private:
  static Result<C> create(LaunchConfig launch) {
    typename Setup::Backend::Config config = Setup::config(launch.rank);
    config.launch = std::move(launch);
    return C::create(config);
  }

  /// What all make, and what never ends for anybody.
  static Status wait_for(C& c, Wait wait, typename Setup::Numbers& numbers) {
    if (wait == Wait::barrier_wait) return c.barrier_wait();
    if (wait == Wait::command) {
      auto command = numbers.span();
      return c.recv_command_u32(
          DeviceSpan<std::uint32_t>(reinterpret_cast<std::uint32_t*>(command.data()), 1), 0);
    }
    if (wait == Wait::synchronize) {
      if (Status s = c.all_reduce(numbers.span()); !s.ok()) return s;
      return c.synchronize();
    }
    auto ticket = c.all_reduce_deferred(numbers.span());
    if (!ticket.ok()) return ticket.status().copy();
    if (Status s = ticket->join({}); !s.ok()) return s;
    return c.synchronize();
  }

  static int is_told(LaunchConfig launch, Wait wait, int victim, Scene& scene) {
    const int rank = launch.rank;
    Complaints complaints(std::string(name_of(wait)) + ", rank " + std::to_string(rank) +
                          ", rank " + std::to_string(victim) + " cut off");
    Result<C> made = create(std::move(launch));
    complaints.expect(made.ok(), "create: " + std::string(made.ok() ? "" : made.message()));
    if (!made.ok()) return complaints.status();
    C& c = *made;
    typename Setup::Numbers numbers;
    Setup::lose_data();
    const auto hears_nothing = Setup::ear(c);
    scene.ready.fetch_add(1);
    // The root gives no command; with Host, where data goes through memory, the victim is away.
    const bool is_away = wait == Wait::command ? rank == 0 : rank == victim && !Setup::kLosesData;
    if (is_away) {
      const std::int64_t end = now_ms() + kDeadline.count() * 1000;
      while (c.is_healthy() && now_ms() < end) usleep(1000);
    }
    const Status s = is_away ? c.barrier() : wait_for(c, wait, numbers);
    const std::int64_t took = now_ms() - scene.cut.load();
    scene.told();
    const std::string text = s.message();
    // Who did not wait is refused, by what its watchdog has found, or finds it now.
    complaints.expect(
        s.code() == StatusCode::peer_lost || (is_away && s.code() == StatusCode::unhealthy), text);
    complaints.expect(took < kBoundMs, "told after " + std::to_string(took) + " ms");
    complaints.expect(!c.is_healthy(), "healthy after " + text);
    complaints.expect(hears_nothing(), "the data path reports an error");
    if (rank == victim) {
      // It knows no more than that rank 0 does not answer; rank 0, that nobody does.
      complaints.expect(text.find("cut off") != std::string::npos, text);
    } else if (Setup::kLosesData) {
      for (int r = 0; r < kRanks; ++r) complaints.expect(says_lost(text, r) == (r == victim), text);
    } else {
      // Through memory the first to notice tells all others, the cut rank too, with its doubt.
      complaints.expect(says_lost(text, victim) || doubts(text, victim), text);
    }
    // Until all have been told: the kernel tells of processes that end.
    scene.stage.fetch_add(1);
    for (const std::int64_t end = now_ms() + kBoundMs; scene.stage.load() < kRanks; usleep(1000))
      if (now_ms() > end) break;
    return complaints.status();
  }

  static int goes_on(LaunchConfig launch, Scene& scene) {
    Complaints complaints("rank " + std::to_string(launch.rank));
    Result<C> made = create(std::move(launch));
    complaints.expect(made.ok(), "create: " + std::string(made.ok() ? "" : made.message()));
    if (!made.ok()) return complaints.status();
    C& c = *made;
    typename Setup::Numbers numbers;
    Status s;
    const auto work_until = [&](int stage) {
      // Rank 0 decides; all learn it in the same round.
      for (bool is_there = false; s.ok() && !is_there;) {
        is_there = c.rank() != 0 || scene.stage.load() >= stage;
        const int one = c.rank() == 0 && is_there ? 100 : 1;
        numbers.fill(one);
        s = c.all_reduce(numbers.span());
        if (s.ok()) s = c.synchronize();
        is_there = s.ok() && numbers.all_are(100 + kRanks - 1);
        complaints.expect(!s.ok() || is_there || numbers.all_are(kRanks), "a wrong sum");
      }
    };
    scene.ready.fetch_add(1);
    work_until(1);
    // With Nccl this speaks over the network that is cut.
    if (s.ok()) {
      auto half = c.split(0, c.rank());
      complaints.expect(half.ok() && half->world_size() == kRanks,
                        "split: " + std::string(half.ok() ? "ok" : half.message()));
    }
    work_until(2);
    complaints.expect(s.ok(), s.message());
    complaints.expect(c.epoch() == 0, "another epoch");
    complaints.expect(c.is_healthy(), "unhealthy");
    // Nobody leaves while another is still at work.
    s = c.barrier_wait();
    complaints.expect(s.ok(), s.message());
    return complaints.status();
  }

  std::string why_;
  std::unique_ptr<Network> network_;
};

}  // namespace comm::test
