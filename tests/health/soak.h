#pragma once

/// A soak: ranks as processes that work for a while, and a parent that kills, stops, ends, slows and
/// cuts them off at random, starts new ones in the place of the dead, and looks for whoever hangs.
/// Each rank is on a network of its own (see network.h), where the machine gives such. With an odd
/// seed it has a PID namespace too, as on another host: then no rank sees another's process end.
///
///     soak [--seconds=15] [--seed=1] [--ranks=3]

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cstdlib>
#include <functional>

#include "comm/launch/launch_config.h"
#include "comm/rendezvous/listener.h"
#include "tests/health/network.h"
#include "tests/health/partitions.h"
#include "tests/health/soak_rank.h"

namespace comm::test {

struct SoakOptions {
  int seconds = 15;
  std::uint64_t seed = 1;
  int ranks = 3;

  static SoakOptions parse(int argc, char** argv) {
    SoakOptions options;
    for (int i = 1; i < argc; ++i) {
      const std::string argument = argv[i];
      const auto is = [&](const char* name) { return argument.rfind(name, 0) == 0; };
      const char* value = argument.c_str() + argument.find('=') + 1;
      if (is("--seconds=")) options.seconds = std::atoi(value);
      if (is("--seed=")) options.seed = std::strtoull(value, nullptr, 10);
      if (is("--ranks=")) options.ranks = std::atoi(value);
    }
    return options;
  }

  bool has_hosts() const { return seed % 2 == 1; }
};

/// Where the ranks meet. Made before anything else, while the process has one thread.
class Meeting {
 public:
  explicit Meeting(const SoakOptions& options) : options_(options) {
    std::string why;
    network_ = Network::make(options.ranks, why);
    if (network_ == nullptr) std::printf("NOT RUN: partitions: %s\n", why.c_str());
    if (network_ != nullptr) {
      listener_ = network_->listen();
    } else if (auto listener = Listener::bind("127.0.0.1", 0); listener.ok()) {
      listener_ = std::move(*listener);
    }
  }

  bool ok() const { return listener_ != nullptr; }
  const Network* network() const { return network_.get(); }

  /// In the process of `rank`.
  LaunchConfig launch(int rank) const {
    if (network_ != nullptr) network_->enter(rank);
    LaunchConfig launch = LaunchConfig::local(rank, options_.ranks, listener_->port());
    if (network_ != nullptr) launch.root_address = Network::address_of(0);
    if (rank == 0) launch.listener = listener_;
    launch.init_timeout = kReconnectTimeout;
    launch.peer_timeout = kPeerTimeout;
    return launch;
  }

 private:
  SoakOptions options_;
  std::unique_ptr<Network> network_;
  std::shared_ptr<Listener> listener_;
};

class Soak {
 public:
  /// `rank_main(board, rank)` is a rank's whole life, in a process of its own.
  using RankMain = std::function<int(Board&, int rank)>;

  Soak(const SoakOptions& options, const Meeting& meeting, RankMain rank_main)
      : options_(options),
        rank_main_(std::move(rank_main)),
        board_(*Board::make()),
        partitions_(meeting.network(), board_, options.ranks),
        has_hosts_(meeting.network() != nullptr && options.has_hosts()) {}

  int run() {
    for (int r = 0; r < options_.ranks; ++r) start(r);
    std::mt19937_64 random(options_.seed);
    const std::int64_t end = now_ms() + 1000LL * options_.seconds;
    while (now_ms() < end && board_.complaints.load() == 0) {
      sleep_ms(static_cast<std::int64_t>(20 + random() % 700));
      partitions_.step(random);
      const int victim = static_cast<int>(random() % static_cast<unsigned>(options_.ranks));
      if (!partitions_.wants_calm()) harm(victim, random);
      revive();
      look_for_hangs();
    }
    partitions_.mend();
    finish();
    std::printf(
        "seed %llu, %d ranks, %d s: %llu steps, %llu comebacks, %llu failures named; %d killed, %d "
        "stopped, %d ended; %d times cut off, of which %d survived, told within %lld ms; %d "
        "complaints\n",
        static_cast<unsigned long long>(options_.seed), options_.ranks, options_.seconds,
        static_cast<unsigned long long>(steps()),
        static_cast<unsigned long long>(board_.reconnects.load()),
        static_cast<unsigned long long>(board_.failures_named.load()), killed_, stopped_, ended_,
        partitions_.count(), partitions_.survived(),
        static_cast<long long>(partitions_.slowest_ms()), board_.complaints.load());
    return board_.complaints.load() == 0 ? 0 : 1;
  }

 private:
  void sleep_ms(std::int64_t ms) { board_.sleep(ms); }

  std::uint64_t steps() const {
    std::uint64_t sum = 0;
    for (const Board::Rank& rank : board_.ranks) sum += rank.steps.load();
    return sum;
  }

  void start(int rank) {
    std::fflush(nullptr);
    board_.beat(rank, "start");
    const int own = has_hosts_ ? open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC) : -1;
    if (own >= 0 && unshare(CLONE_NEWPID) != 0) std::abort();
    const pid_t pid = fork();
    if (own >= 0 && pid != 0 && setns(own, CLONE_NEWPID) != 0) std::abort();
    if (own >= 0) close(own);
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      // The first process of a namespace is spared what it has no handler for.
      if (has_hosts_) signal(SIGTERM, [](int) { std::_Exit(0); });
      // Orderly, but without what the parent still has to say.
      const int status = rank_main_(board_, rank);
      std::fflush(nullptr);
      std::_Exit(status);
    }
    pids_[rank] = pid;
  }

  void harm(int rank, std::mt19937_64& random) {
    Board::Rank& victim = board_.ranks[rank];
    const unsigned how = static_cast<unsigned>(random() % 10);
    victim.harmed.store(now_ms());
    if (how < 4) {
      kill(pids_[rank], how == 0 ? SIGTERM : SIGKILL);
      ++killed_;
      return;
    }
    if (how == 4) {
      victim.harmed.store(now_ms());
      kill(pids_[rank], SIGUSR1);  // It leaves in good order.
      ++ended_;
      return;
    }
    if (how < 8) {
      victim.stops.fetch_add(1);
      victim.is_stopped.store(true);
      kill(pids_[rank], SIGSTOP);
      ++stopped_;
      // Sometimes for longer than the others wait.
      const std::int64_t longest = how == 7 ? 3000 : 400;
      sleep_ms(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(longest)));
      victim.harmed.store(now_ms());
      kill(pids_[rank], SIGCONT);
      victim.is_stopped.store(false);
      board_.beat(rank, "continued");
    }
    // Otherwise nothing: also the quiet time is part of a soak.
  }

  void revive() {
    for (int r = 0; r < options_.ranks; ++r) {
      int status = 0;
      if (pids_[r] <= 0 || waitpid(pids_[r], &status, WNOHANG) != pids_[r]) continue;
      const bool by_signal =
          WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGTERM);
      if (!by_signal && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
        board_.complain("rank %d ended with status %#x while in %s", r,
                        static_cast<unsigned>(status), board_.ranks[r].doing.load());
      board_.ranks[r].harmed.store(now_ms());
      board_.ranks[r].runs.store(false);
      start(r);
    }
  }

  void look_for_hangs() {
    for (int r = 0; r < options_.ranks; ++r) {
      const std::int64_t beat = std::max(board_.ranks[r].beat.load(), board_.stood_still.load());
      const std::int64_t silent = now_ms() - beat;
      if (silent < 30'000) continue;
      board_.complain("rank %d (pid %d) hangs in %s for %lld ms", r, static_cast<int>(pids_[r]),
                      board_.ranks[r].doing.load(), static_cast<long long>(silent));
      if (std::getenv("SOAK_WAITS") != nullptr) sleep_ms(600'000);  // For a debugger.
    }
  }

  void finish() {
    board_.is_over.store(true);
    std::int64_t end = now_ms() + 20'000;
    for (int r = 0; r < options_.ranks; ++r) {
      int status = 0;
      pid_t ended = 0;
      while ((ended = waitpid(pids_[r], &status, WNOHANG)) == 0 && now_ms() < end) {
        sleep_ms(5);
        end = std::max(end, board_.stood_still.load() + 20'000);
      }
      if (ended != 0) continue;
      board_.complain("rank %d does not end; it is in %s", r, board_.ranks[r].doing.load());
      kill(pids_[r], SIGKILL);
      waitpid(pids_[r], &status, 0);
    }
  }

  SoakOptions options_;
  RankMain rank_main_;
  Board& board_;
  Partitions partitions_;
  bool has_hosts_;
  pid_t pids_[kMostRanks] = {};
  int killed_ = 0;
  int stopped_ = 0;
  int ended_ = 0;
};

/// A rank's life: it joins, whatever the others are doing, works, and leaves.
template <class B, class Memory>
int live(Board& board, const SoakOptions& options, int rank, const typename B::Config& config) {
  signal(SIGUSR1, [](int) { leaves = 1; });
  std::string last;
  for (int attempt = 0; attempt < 40 && !board.is_over.load(); ++attempt) {
    board.beat(rank, "create");
    auto made = Communicator<B>::create(config);
    if (made.ok())
      return SoakRank<Communicator<B>, Memory>(board, options.seed, std::move(*made), options.ranks)
          .run();
    last = made.message();
  }
  if (!board.is_over.load())
    board.complain("rank %d: cannot join; at last: %s", rank, last.c_str());
  return 1;
}

}  // namespace comm::test
