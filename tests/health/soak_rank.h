#pragma once

/// One rank of a soak: makes calls that all ranks derive from the seed, the epoch and the step;
/// checks every result; and after a failure checks what it was told, how soon, and comes back.

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/health/board.h"
#include "tests/health/held.h"
#include "tests/health/operations.h"

namespace comm::test {

inline constexpr std::chrono::milliseconds kCollectiveTimeout{1500};
inline constexpr std::chrono::milliseconds kReconnectTimeout{6000};
inline constexpr std::chrono::milliseconds kPeerTimeout{3000};
/// What a machine with other work to do may add to a deadline.
inline constexpr std::int64_t kSlackMs = 5000;

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15U ^ (b + 0xbf58476d1ce4e5b9U);
  x ^= x >> 31;
  x *= 0x94d049bb133111ebU;
  return x ^ (x >> 29);
}

inline Task draw(std::uint64_t seed, std::uint64_t epoch, std::uint64_t step, int world) {
  std::mt19937_64 random(mix(mix(seed, epoch), step));
  constexpr std::size_t kCounts[] = {1, 7, 1000, 20'000};
  Task task{};
  task.kind = static_cast<Kind>(random() % kKinds);
  task.count = kCounts[random() % 4];
  task.root = static_cast<int>(random() % static_cast<unsigned>(world));
  task.round = static_cast<int>(random() % 1000);
  return task;
}

/// Set by SIGUSR1: this rank shall leave in good order.
inline volatile sig_atomic_t leaves = 0;

/// `Memory` has `send()`, `recv()`, and `fill(values)`, `read(count)` of `recv`.
template <class C, class Memory>
class SoakRank {
 public:
  SoakRank(Board& board, std::uint64_t seed, C communicator, int world)
      : board_(board),
        seed_(seed),
        rank_(communicator.rank()),
        memory_(static_cast<std::size_t>(world) * 20'000),
        c_(std::move(communicator)) {}

  /// Until the soak is over. The exit status.
  int run() {
    begin_epoch();
    while (!board_.is_over.load() && leaves == 0) {
      Status s = step();
      if (s.ok()) continue;
      judge(s);
      if (!come_back()) return board_.is_over.load() ? 0 : 1;
    }
    mine().harmed.store(now_ms());  // It leaves, perhaps long after it was told to.
    return 0;
  }

 private:
  Board::Rank& mine() { return board_.ranks[rank_]; }

  void begin_epoch() {
    step_ = 0;
    epoch_began_ = now_ms();
    mine().epoch.store(c_.epoch());
    mine().runs.store(true);
  }

  bool is_since_epoch_began(std::int64_t when) const { return when + 50 >= epoch_began_; }
  bool was_harmed(int rank) const {
    const Board::Rank& other = board_.ranks[rank];
    return other.is_cut.load() || is_since_epoch_began(other.harmed.load());
  }
  bool was_cut_off() { return mine().is_cut.load() || is_since_epoch_began(mine().cut.load()); }

  Status step() {
    const int world = c_.world_size();
    const Task task = draw(seed_, c_.epoch(), step_, world);
    ++step_;
    board_.beat(rank_, name_of(task.kind));
    memory_.fill(input(task, rank_, world));
    const std::uint32_t stops = mine().stops.load();
    const std::int64_t began = now_ms();
    own_.seed(mix(mix(seed_, step_), static_cast<std::uint64_t>(rank_) + 99));
    if (own_() % 200 == 0) usleep(static_cast<useconds_t>(own_() % 20'000));  // A slow rank.
    Status s = test::run(c_, task, memory_.send(), memory_.recv(), {});
    if (s.ok() && task.kind != Kind::barrier_wait) s = c_.synchronize();
    const std::int64_t took = now_ms() - began;
    // No deadline stands behind the wait for a command: what ends it is the failure of a rank.
    const bool bounded = task.kind != Kind::recv_command_u32;
    if (bounded && took > 2 * kCollectiveTimeout.count() + kSlackMs &&
        stops == mine().stops.load() && !board_.stood_still_since(began))
      board_.complain("rank %d: %s took %lld ms", rank_, name_of(task.kind),
                      static_cast<long long>(took));
    if (!s.ok()) return s;
    const std::vector<float> want = expected(task, rank_, world);
    const std::vector<float> got = memory_.read(want.size());
    if (got != want) {
      std::size_t i = 0;
      while (got[i] == want[i]) ++i;
      board_.complain("rank %d, epoch %llu, step %llu: %s of %zu, element %zu is %g, not %g", rank_,
                      static_cast<unsigned long long>(c_.epoch()),
                      static_cast<unsigned long long>(step_), name_of(task.kind), task.count, i,
                      static_cast<double>(got[i]), static_cast<double>(want[i]));
    }
    mine().steps.fetch_add(1);
    return s;
  }

  /// Whoever was harmed since this epoch began is to be found in the message. A rank that is itself
  /// cut off cannot know more than that the others do not answer.
  void judge(const Status& s) {
    mine().runs.store(false);
    if (board_.is_over.load()) return;
    const std::string message = s.message();
    bool named = false;
    std::string harmed;
    for (int r = 0; r < c_.world_size(); ++r) {
      const bool is_harmed = was_harmed(r);
      if (is_harmed) harmed += " " + std::to_string(r);
      if (!is_harmed && !was_cut_off() &&
          names(message, "rank " + std::to_string(r) + " (pid", " is lost"))
        board_.complain("rank %d: rank %d is fine, told was: %s", rank_, r, message.c_str());
      if (!is_harmed && !was_cut_off()) continue;
      for (const char* word : {"rank ", "ranks ", ", ", "and "})
        named = named || names(message, word + std::to_string(r));
    }
    if (named)
      board_.failures_named.fetch_add(1);
    else
      board_.complain("rank %d: harmed were%s, told was: %s", rank_,
                      harmed.empty() ? " none" : harmed.c_str(), message.c_str());
    const Status next = c_.barrier();
    if (next.ok()) board_.complain("rank %d: not refused after %s", rank_, message.c_str());
    if (c_.is_healthy()) board_.complain("rank %d: healthy after %s", rank_, message.c_str());
  }

  /// "rank 1 (pid 12 on host) is lost".
  static bool names(const std::string& text, const std::string& who, const std::string& how) {
    const std::size_t at = text.find(who);
    if (at == std::string::npos) return false;
    const std::size_t end = text.find(')', at);
    return end != std::string::npos && text.compare(end + 1, how.size(), how) == 0;
  }

  /// "rank 1", but not in "rank 12", nor as "on rank 1 of", which says who speaks.
  static bool names(const std::string& text, const std::string& who) {
    for (std::size_t at = text.find(who); at != std::string::npos; at = text.find(who, at + 1)) {
      const char* after = text.c_str() + at + who.size();
      const bool speaks =
          at >= 3 && text.compare(at - 3, 3, "on ") == 0 && std::strncmp(after, " of ", 4) == 0;
      if ((*after < '0' || *after > '9') && !speaks) return true;
    }
    return false;
  }

  bool come_back() {
    for (int attempt = 0; attempt < 40 && !board_.is_over.load(); ++attempt) {
      board_.beat(rank_, "attempt_reconnect");
      const std::uint32_t stops = mine().stops.load();
      const std::int64_t began = now_ms();
      Status s = c_.attempt_reconnect();
      const std::int64_t took = now_ms() - began;
      if (took > kReconnectTimeout.count() + 2 * kSlackMs && stops == mine().stops.load() &&
          !board_.stood_still_since(began))
        board_.complain("rank %d: attempt_reconnect took %lld ms: %s", rank_,
                        static_cast<long long>(took), s.message());
      if (!s.ok()) {
        if (c_.is_healthy()) board_.complain("rank %d: healthy after %s", rank_, s.message());
        last_ = s.message();
        continue;
      }
      begin_epoch();
      board_.reconnects.fetch_add(1);
      check_held();
      return true;
    }
    if (!board_.is_over.load())
      board_.complain("rank %d: no way back; at last: %s", rank_, last_.c_str());
    return false;
  }

  void check_held() {
    ++comebacks_;
    const Held held = Held::now();
    if (comebacks_ == 5) base_ = held;
    if (comebacks_ <= 5 || comebacks_ % 10 != 0) return;
    // Threads and descriptors that are on their way out count; what grows does not end.
    if (held.descriptors > base_.descriptors + 8 || held.threads > base_.threads + 4 ||
        held.mappings > base_.mappings + 60 || held.kilobytes > base_.kilobytes + 48 * 1024)
      board_.complain(
          "rank %d after %d comebacks: %ld descriptors, %ld threads, %ld mappings, %ld KiB; it was "
          "%ld, %ld, %ld, %ld after 5",
          rank_, comebacks_, held.descriptors, held.threads, held.mappings, held.kilobytes,
          base_.descriptors, base_.threads, base_.mappings, base_.kilobytes);
  }

  Board& board_;
  std::uint64_t seed_;
  int rank_;
  Memory memory_;  ///< Freed after the communicator has ended.
  C c_;
  std::mt19937_64 own_;
  std::uint64_t step_ = 0;
  std::int64_t epoch_began_ = 0;
  int comebacks_ = 0;
  Held base_;
  std::string last_;
};

}  // namespace comm::test
