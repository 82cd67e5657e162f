#pragma once

/// `Team` is one communicator's share of the shared memory: ranks that take ticks together (see
/// layout.h), the first failure of any of them, and waiting that notices when a peer is gone. It
/// moves no data by itself; the algorithms in this folder do, through `Call` and the rings.
///
/// The path of an operation that finds its peers ready makes no system call, takes no lock and
/// allocates nothing. A thread at a time, but for `fail`, `is_healthy` and `refusal`.

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "comm/backends/host/layout.h"
#include "comm/backends/host/world.h"
#include "comm/health/told.h"
#include "comm/logger.h"
#include "comm/operations.h"
#include "comm/result.h"

namespace comm::detail::host {

/// A function to call while waiting: the ranks that are not ready yet, as bits; 0 ends the wait.
class Missing {
 public:
  template <class F>
  explicit Missing(F& function)
      : object_(&function),
        call_([](void* f) -> std::uint64_t { return (*static_cast<F*>(f))(); }) {}
  std::uint64_t operator()() const { return call_(object_); }

 private:
  void* object_;
  std::uint64_t (*call_)(void*);
};

constexpr std::uint64_t bit(int rank) {
  return std::uint64_t{1} << rank;
}

/// No deadline: the peers' health alone ends the wait.
inline constexpr std::int64_t kForever = INT64_MAX;

class Team {
 public:
  /// `members` are ranks of the world in the order of their ranks here. `offset`: memory of the
  /// world's file of at least `Layout::total()`.
  static Result<std::unique_ptr<Team>> attach(std::shared_ptr<World> world,
                                              std::vector<int> members, int rank,
                                              std::uint64_t offset);
  ~Team();  ///< Leaves in good order.
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  World& world() const { return *world_; }
  const std::shared_ptr<World>& shared_world() const { return world_; }
  const std::vector<int>& members() const { return members_; }
  const Layout& layout() const { return layout_; }

  // The two loads that every operation begins with.
  bool is_usable() const {
    return header_->poison.load(std::memory_order_relaxed) == Poison::none &&
           world_->fork_guard.is_original();
  }

  /// Why an operation is refused. The first one after a failure gets its cause as if it had found it
  /// itself, since it may be the very call that other ranks have found wrong; later ones `unhealthy`.
  [[gnu::cold]] Status refusal(Operation operation);

  /// Also asks the kernel and the rendezvous for peers that are gone. Any thread.
  bool is_healthy();

  std::uint32_t tick() const { return tick_; }

  /// How often to look for a peer before a real wait begins; 0 where peers need this core.
  int quick_looks() const { return quick_looks_; }

  /// Whether ranks fetch large data from each other's memory. Given up for good where it failed.
  bool reads_peers() const { return reads_peers_; }
  void stop_reading_peers() { reads_peers_ = false; }
  /// Once, when a world has found out.
  void set_reads_peers(bool reads) { reads_peers_ = reads; }

  /// `from`, an address of that rank, to `to`; 0 or an errno.
  int read_peer(int rank, void* to, const void* from, std::size_t bytes) const {
    return world_->memory.read(members_[static_cast<std::size_t>(rank)], to, from, bytes);
  }

  /// Takes the next tick: everything written before is visible to whoever sees the post.
  void post(std::uint64_t meta, std::uint64_t count, const void* payload, std::size_t bytes) {
    ++tick_;
    Post& mine = posts(rank_)[tick_ & 1];
    mine.count.store(count, std::memory_order_relaxed);
    if (bytes != 0) __builtin_memcpy(mine.payload, payload, bytes);
    mine.word.store(meta | tick_, std::memory_order_release);
    announce();
  }

  /// Wakes whoever sleeps until this rank does something.
  void announce() {
    // The barrier is on the sleeper's side (waiting.h); here the compiler must keep the order.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (own_->waiters.load(std::memory_order_relaxed) != 0) [[unlikely]]
      wake_waiters();
  }

  RankLines& lines(int rank) const { return lines_[rank]; }
  Post* posts(int rank) const { return lines_[rank].posts; }
  std::byte* slot(int rank, std::uint32_t tick) const {
    return slots_ + (2 * static_cast<std::size_t>(rank) + (tick & 1)) * layout_.slot_bytes;
  }
  std::byte* out_slot(int rank, std::uint32_t tick) const {
    return outs_ + (2 * static_cast<std::size_t>(rank) + (tick & 1)) * layout_.out_bytes;
  }
  Ring& ring(int from, int to) const { return rings_[ring_index(from, to)]; }
  std::byte* ring_data(int from, int to) const {
    return ring_data_ + ring_index(from, to) * layout_.ring_bytes;
  }

  /// Waits until `missing()` is 0. The error names `operation`, who was waited for, and who of
  /// `among` has come, and has been told to all ranks.
  Status wait(Missing missing, std::int64_t timeout_ns, Operation operation,
              std::uint64_t among = 0);

  /// As `wait`, for what must work on a team that has failed: neither looks at the failure nor adds
  /// to it; a peer that is gone ends it all the same.
  Status wait_regardless(Missing missing, std::int64_t timeout_ns, Operation operation);

  /// Makes all ranks fail with this cause, unless there was one before; returns the error of
  /// `operation` with whichever cause came first. Any thread.
  [[gnu::cold]] Status fail(Operation operation, const Status& cause);

  /// The first half of that: for whoever has no operation that could return the error. Whether it is
  /// the first cause.
  [[gnu::cold]] bool publish(const Status& cause);

  /// Whoever is told of a failure of this team is entered there; before others know the team.
  void set_told(std::shared_ptr<const Told> told) { told_ = std::move(told); }

  /// Where failures and slow waits are said; before others know the team.
  void set_log(std::shared_ptr<Logger> log) { log_ = std::move(log); }

  /// Rank `rank` for people: also its rank in the world, where that differs.
  struct Name {
    char text[48];
  };
  Name name(int rank) const;

  /// One more operation of this rank was submitted; for messages.
  void count() {
    sequence_.store(sequence_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  /// "rank 0 of 3 (epoch 1, seq 17)", for people: this rank, and how many operations it submitted.
  struct Where {
    char text[96];
  };
  Where where() const;

 private:
  Team() = default;

  std::size_t ring_index(int from, int to) const {
    return static_cast<std::size_t>(from) * layout_.n + static_cast<std::size_t>(to);
  }
  [[gnu::cold]] void wake_waiters();
  void wake_all();
  void tell_thread() const;
  /// The first cause, on its way out of `operation`; `is_own`: which has found it just now.
  Status failure(Operation operation, bool is_own = false);
  Status lost_peer(std::uint64_t among, bool ask_rendezvous);
  Status departed(Missing missing, Operation operation);
  Status overdue(std::uint64_t missing, std::uint64_t among, std::int64_t timeout_ns) const;
  /// `what` with operation, rank, world, epoch and sequence number before it.
  Status from_here(Operation operation, const Status& what) const;
  /// Whether one of those that are waited for was last seen on the core this rank runs on: it cannot
  /// come before this rank gives way, whatever other cores are idle.
  bool waits_for_own_core(std::uint64_t on);
  Status wait_slowly(Missing missing, std::int64_t timeout_ns, Operation operation,
                     std::uint64_t among, bool regardless);
  void sleep(Missing missing, std::uint64_t on, std::int64_t nanoseconds, bool regardless);

  std::uint32_t tick_ = 0;
  std::atomic<std::uint64_t> sequence_{0};
  int quick_looks_ = 0;
  bool reads_peers_ = false;
  unsigned collisions_ = 0;  ///< Waits for a rank that needed this rank's core.
  int rank_ = 0;
  int size_ = 1;
  RankLines* own_ = nullptr;
  RankLines* lines_ = nullptr;
  Header* header_ = nullptr;
  std::byte* slots_ = nullptr;
  std::byte* outs_ = nullptr;
  Ring* rings_ = nullptr;
  std::byte* ring_data_ = nullptr;
  std::shared_ptr<World> world_;
  Layout layout_{};
  std::vector<int> members_;
  Mapping mapping_;
  std::uint64_t offset_ = 0;
  std::shared_ptr<const Told> told_;  ///< None on a part, which cannot reconnect.
  std::shared_ptr<Logger> log_;
  std::atomic<bool> was_told_{false};  ///< Some operation of this rank has returned the cause.
};

}  // namespace comm::detail::host
