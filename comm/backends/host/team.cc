#include "comm/backends/host/team.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "comm/rendezvous/out_of_band.h"

namespace comm::detail::host {

namespace {

/// As it is called on the way: an exchange goes by the name of what never is one.
const char* name_of(Operation operation) {
  return operation == kExchange ? "a comparison of calls" : to_string(operation);
}

struct List {
  char text[128];
};

/// "; ranks 0-2, 5 came", or nothing.
List list_of(std::uint64_t ranks) {
  List list{};
  std::size_t used = 0;
  for (int r = 0; r < kMaxRanks && used + 16 < sizeof list.text;) {
    if ((ranks & bit(r)) == 0) {
      ++r;
      continue;
    }
    int last = r;
    while (last + 1 < kMaxRanks && (ranks & bit(last + 1)) != 0) ++last;
    const char* before = used != 0 ? ", " : (ranks & (ranks - 1)) == 0 ? "; rank " : "; ranks ";
    char* to = list.text + used;
    const std::size_t room = sizeof list.text - used;
    const int n = last == r ? std::snprintf(to, room, "%s%d", before, r)
                            : std::snprintf(to, room, "%s%d-%d", before, r, last);
    used += static_cast<std::size_t>(n);
    r = last + 1;
  }
  if (used != 0) std::snprintf(list.text + used, sizeof list.text - used, " came");
  return list;
}

}  // namespace

Result<std::unique_ptr<Team>> Team::attach(std::shared_ptr<World> world, std::vector<int> members,
                                           int rank, std::uint64_t offset) {
  std::unique_ptr<Team> team(new Team);
  team->rank_ = rank;
  team->size_ = static_cast<int>(members.size());
  team->layout_ = Layout::of(team->size_, world->slot_bytes);
  const bool is_one_node = pieces_of(team->layout_, world->nodes_of(members)).empty();
  Result<Mapping> mapping = world->file.map(offset, team->layout_.total(), is_one_node);
  if (!mapping.ok()) return std::move(mapping).status();
  std::byte* base = mapping->base();
  team->mapping_ = std::move(*mapping);
  team->offset_ = offset;
  team->header_ = reinterpret_cast<Header*>(base);
  team->lines_ = reinterpret_cast<RankLines*>(base + team->layout_.lines());
  team->own_ = team->lines_ + rank;
  team->rings_ = reinterpret_cast<Ring*>(base + team->layout_.rings());
  team->ring_data_ = base + team->layout_.ring_data();
  team->slots_ = base + team->layout_.slots();
  team->outs_ = base + team->layout_.outs();
  team->quick_looks_ = world->waiting.spins >= 100 ? 100 : 0;
  team->reads_peers_ = world->reads_peers;
  team->world_ = std::move(world);
  team->members_ = std::move(members);
  team->own_->state.store(RankState::running, std::memory_order_release);
  return team;
}

Team::~Team() {
  if (header_ == nullptr || !world_->fork_guard.is_original()) return;
  own_->state.store(RankState::left, std::memory_order_release);
  wake_all();
  if (header_->detached.fetch_add(1) + 1 == static_cast<std::uint32_t>(size_))
    world_->file.discard(offset_, layout_.total());
}

Team::Name Team::name(int rank) const {
  Name name{};
  const int in_world = members_[static_cast<std::size_t>(rank)];
  if (in_world == rank)
    std::snprintf(name.text, sizeof name.text, "rank %d", rank);
  else
    std::snprintf(name.text, sizeof name.text, "rank %d (world rank %d)", rank, in_world);
  return name;
}

void Team::wake_waiters() {
  std::uint64_t sleepers = own_->waiters.exchange(0);
  for (; sleepers != 0; sleepers &= sleepers - 1) {
    RankLines& other = lines_[__builtin_ctzll(sleepers)];
    other.wake.fetch_add(1);
    futex_wake(other.wake);
  }
}

void Team::wake_all() {
  // This rank too: another thread of it may be the one that sleeps.
  for (int r = 0; r < size_; ++r) {
    lines_[r].wake.fetch_add(1);
    futex_wake(lines_[r].wake);
  }
}

Team::Where Team::where() const {
  Where here;
  std::snprintf(here.text, sizeof here.text, "rank %d of %d (epoch %llu, seq %llu)", rank_, size_,
                static_cast<unsigned long long>(world_->epoch),
                static_cast<unsigned long long>(sequence_.load(std::memory_order_relaxed)));
  return here;
}

Status Team::from_here(Operation operation, const Status& what) const {
  return make_error(what.code(), what.native_code(), "%s on %s: %s", to_string(operation),
                    where().text, what.message());
}

bool Team::publish(const Status& cause) {
  Poison none = Poison::none;
  if (!header_->poison.compare_exchange_strong(none, Poison::being_written)) return false;
  header_->cause.code = static_cast<std::uint32_t>(cause.code());
  header_->cause.native_code = cause.native_code();
  std::snprintf(header_->cause.text, sizeof header_->cause.text, "%s", cause.message());
  header_->poison.store(Poison::set, std::memory_order_release);
  wake_all();
  return true;
}

Status Team::fail(Operation operation, const Status& cause) {
  const bool is_own = publish(from_here(operation, cause));
  return failure(operation, is_own);
}

void Team::tell_thread() const {
  if (told_ != nullptr) told_->remember(world_->epoch);
}

Status Team::failure(Operation operation, bool is_own) {
  tell_thread();
  const bool is_news = !was_told_.exchange(true, std::memory_order_relaxed);
  // Whoever writes the cause is a few instructions from the end of it, or died there.
  for (int i = 0; i < 1000 && header_->poison.load(std::memory_order_acquire) != Poison::set; ++i)
    sched_yield();
  if (header_->poison.load(std::memory_order_acquire) != Poison::set)
    return make_error(StatusCode::peer_lost, 0, "%s on %s: a rank died while it reported a failure",
                      to_string(operation), where().text);
  const Cause& cause = header_->cause;
  Status first =
      make_error(static_cast<StatusCode>(cause.code), cause.native_code, "%s", cause.text);
  // What has found it says where in the cause itself, which is for all ranks; another thread of this
  // rank may be in another operation.
  if (!is_own) first = from_here(operation, first);
  if (is_news && log_ != nullptr) log_->say(LogLevel::error, "unhealthy: %s", first.message());
  return first;
}

Status Team::refusal(Operation operation) {
  if (!world_->fork_guard.is_original())
    return make_error(
        StatusCode::unhealthy, 0,
        "%s on %s: refused in a process forked from the one that made this communicator; make a "
        "communicator in the child, or fork before making one",
        to_string(operation), where().text);
  const bool was_told = was_told_.load(std::memory_order_relaxed);
  Status first = failure(operation);
  if (!was_told) return first;
  return make_error(StatusCode::unhealthy, first.native_code(),
                    "%s on %s: refused, the communicator is unhealthy. First cause: %s. %s",
                    to_string(operation), where().text, header_->cause.text,
                    told_ == nullptr
                        ? "Reconnect the communicator it was made from, then make it again"
                        : "Call attempt_reconnect on every rank");
}

bool Team::is_healthy() {
  if (is_usable()) {
    Status lost = lost_peer(~std::uint64_t{0}, true);
    if (lost.ok()) return true;
    publish(lost);
  }
  tell_thread();
  return false;
}

Status Team::lost_peer(std::uint64_t among, bool ask_rendezvous) {
  const std::uint64_t ended = world_->peers.ended();
  for (int r = 0; ended != 0 && r < size_; ++r) {
    const int in_world = members_[static_cast<std::size_t>(r)];
    if ((ended & bit(in_world)) == 0 || (among & bit(r)) == 0) continue;
    if (lines_[r].state.load(std::memory_order_acquire) == RankState::left) continue;
    return make_error(StatusCode::peer_lost, 0, "%s is lost: its process %d has ended",
                      name(r).text, static_cast<int>(world_->peers.pid(in_world)));
  }
  if (!ask_rendezvous || world_->out_of_band == nullptr ||
      world_->is_superseded.load(std::memory_order_relaxed))
    return {};
  Status told = world_->out_of_band->check();
  if (told.ok()) return {};
  const int lost = world_->out_of_band->lost_rank();
  const auto member = std::find(members_.begin(), members_.end(), lost);
  if (lost >= 0 && member == members_.end()) return {};  // Lost to others, not to this team.
  if (lost >= 0 && lines_[member - members_.begin()].state.load() == RankState::left) return {};
  return told;
}

Status Team::departed(Missing missing, Operation operation) {
  for (int r = 0; r < size_; ++r) {
    if (lines_[r].state.load(std::memory_order_acquire) != RankState::left) continue;
    // What it did before it left counts.
    if ((missing() & bit(r)) == 0) continue;
    return make_error(StatusCode::peer_lost, 0,
                      "%s has left: its communicator was destroyed while rank %d waited for it in "
                      "%s; all ranks must make the same calls",
                      name(r).text, rank_, to_string(operation));
  }
  return {};
}

Status Team::overdue(std::uint64_t missing, std::uint64_t among, std::int64_t timeout_ns) const {
  char late[256] = "";
  std::size_t used = 0;
  std::uint64_t came = 0;
  for (int r = 0; r < size_; ++r) {
    if ((missing & bit(r)) == 0) came |= among & bit(r);
    if ((missing & bit(r)) == 0 || used + 56 >= sizeof late) continue;
    const std::uint64_t w = std::max(
        posts(r)[0].word.load(), posts(r)[1].word.load(), [](std::uint64_t a, std::uint64_t b) {
          return static_cast<std::uint32_t>(a) < static_cast<std::uint32_t>(b);
        });
    const int n = std::snprintf(late + used, sizeof late - used, "%s%d (last seen in %s)",
                                used == 0 ? "" : ", ", r,
                                w == 0 ? "nothing" : name_of(Meta::from_word(w).operation));
    used += static_cast<std::size_t>(n);
  }
  return make_error(StatusCode::timeout, 0,
                    "waited %.3f s for rank %s%s; who is missing lives, and is late or makes other "
                    "calls",
                    static_cast<double>(timeout_ns) * 1e-9, late, list_of(came).text);
}

Status Team::wait(Missing missing, std::int64_t timeout_ns, Operation operation,
                  std::uint64_t among) {
  return wait_slowly(missing, timeout_ns, operation, among, false);
}

Status Team::wait_regardless(Missing missing, std::int64_t timeout_ns, Operation operation) {
  return wait_slowly(missing, timeout_ns, operation, 0, true);
}

bool Team::waits_for_own_core(std::uint64_t on) {
  const int here = sched_getcpu() + 1;
  if (own_->core.load(std::memory_order_relaxed) != here)
    own_->core.store(here, std::memory_order_relaxed);
  for (std::uint64_t rest = on; rest != 0; rest &= rest - 1) {
    const int r = __builtin_ctzll(rest);
    if (r != rank_ && lines_[r].core.load(std::memory_order_relaxed) == here) return true;
  }
  return false;
}

Status Team::wait_slowly(Missing missing, std::int64_t timeout_ns, Operation operation,
                         std::uint64_t among, bool regardless) {
  const Waiting& policy = world_->waiting;
  const bool collides = waits_for_own_core(missing());
  const int spins = collides ? policy.spins_on_shared_core : policy.spins;
  for (int i = 0; i < spins; ++i) {
    if (missing() == 0) return {};
    if (!regardless && header_->poison.load(std::memory_order_relaxed) != Poison::none)
      return failure(operation);
    pause();
  }
  const std::int64_t begin = now_ns();
  const std::int64_t deadline = deadline_after(timeout_ns);
  // The kernel moves whoever wakes up to an idle core, and hardly ever whoever yields.
  const bool moves = collides && collisions_++ % policy.yields_until_move == 0;
  const std::int64_t yield_ns = moves ? 0 : policy.yield_ns;
  std::int64_t say_after = timeout_ns == kForever ? kForever : policy.slow_ns;
  const bool exact = world_->wakes_are_exact;
  std::int64_t pause_ns = exact ? policy.first_sleep_ns : 50'000;
  const std::int64_t longest = exact ? policy.longest_sleep_ns : 1'000'000;
  for (int round = 0;; ++round) {
    const std::uint64_t on = missing();
    if (on == 0) return {};
    if (!regardless && header_->poison.load(std::memory_order_acquire) != Poison::none)
      return failure(operation);
    const bool is_yielding = yield_ns > 0 && now_ns() - begin < yield_ns;
    if (!is_yielding || round % 64 == 63) {
      // What is there wins over whatever happened to its sender since.
      const std::int64_t left = deadline == kForever ? kForever : deadline - now_ns();
      Status bad = departed(missing, operation);
      if (bad.ok()) bad = lost_peer(regardless ? on : ~std::uint64_t{0}, !regardless);
      if (bad.ok() && left <= 0 && missing() != 0) bad = overdue(on, among, timeout_ns);
      if (!bad.ok()) return regardless ? from_here(operation, bad) : fail(operation, bad);
      if (!is_yielding) {
        if (const std::int64_t waited = now_ns() - begin; waited > say_after) {
          if (log_ != nullptr)
            log_->say(LogLevel::warn, "%s %s (seq %llu)", to_string(operation),
                      overdue(on, among, waited).message(),
                      static_cast<unsigned long long>(sequence_.load(std::memory_order_relaxed)));
          say_after = waited * 2;
        }
        sleep(missing, on, std::min({pause_ns, longest, left}), regardless);
        pause_ns = std::min(pause_ns * 2, longest);
        continue;
      }
    }
    sched_yield();
  }
}

void Team::sleep(Missing missing, std::uint64_t on, std::int64_t nanoseconds, bool regardless) {
  const std::uint32_t seen = own_->wake.load(std::memory_order_acquire);
  for (std::uint64_t rest = on; rest != 0; rest &= rest - 1)
    lines_[__builtin_ctzll(rest)].waiters.fetch_or(bit(rank_));
  if (world_->wakes_are_exact) barrier_everywhere();
  const bool poisoned = !regardless && header_->poison.load() != Poison::none;
  if (missing() == on && !poisoned) futex_wait(own_->wake, seen, nanoseconds);
  for (std::uint64_t rest = on; rest != 0; rest &= rest - 1)
    lines_[__builtin_ctzll(rest)].waiters.fetch_and(~bit(rank_));
}

}  // namespace comm::detail::host
