#pragma once

/// The service of rank 0: one thread, asleep in epoll, that lets ranks in, relays who was lost and
/// carries the exchanges. Rank 0 itself is a client of it like all others, over a socket pair; what
/// rank 0 wants from the service (leave, rejoin) are frames on that pair, so nothing is shared with
/// the thread and nothing needs a lock. The thread ends when the pair is closed.
///
/// Each connection is admitted by itself: nobody's silence, slowness or garbage is waited for by
/// anybody else, but by a newcomer that claims the place of a rank of another host: whether that still
/// lives its host is asked first (hub_silence.cc).

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "comm/logger.h"
#include "comm/rendezvous/admission.h"
#include "comm/rendezvous/connection.h"
#include "comm/rendezvous/exchanges.h"
#include "comm/rendezvous/listener.h"
#include "comm/rendezvous/log.h"

namespace comm::detail {

struct HubConfig {
  Expectation expected;
  Hello local;  ///< Rank 0's own.
  std::uint64_t epoch = 0;
  /// Rank 0 joins whichever epoch forms: it may have been started again, and the others, which know
  /// the epoch, ask for the one that comes next.
  bool takes_epoch_of_others = false;
  Deadline deadline = Deadline::never();  ///< For the first epoch to form.
  Milliseconds handshake_timeout{5000};
  Milliseconds peer_timeout{30000};
  /// How long the rest may stay away after a rank of this job was turned away, before the job is
  /// given up. Without a secret that rank may have been a stranger, and the real one on its way.
  Milliseconds offence_grace{2000};
};

class Hub {
 public:
  /// `local` is the service's end of the socket pair.
  static Result<std::unique_ptr<Hub>> start(HubConfig config, std::shared_ptr<Listener> listener,
                                            UniqueFd local, std::shared_ptr<Logger> log);
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  /// Waits for the thread, which takes well under a second once the pair's other end is closed.
  ~Hub();

 private:
  using State = Connection::State;
  enum class Phase { idle, forming, running };

  Hub(HubConfig config, std::shared_ptr<Listener> listener, std::shared_ptr<Logger> log);
  Status prepare(UniqueFd local);

  // The loop: hub_loop.cc.
  void run();
  void dispatch(std::uint64_t token, std::uint32_t events);
  void accept_some();
  void admit_socket(UniqueFd fd);
  bool evict_oldest_stranger(const char* why);
  void read_from(Connection& c);
  bool handle_frames(Connection& c);
  void flush_and_bury();
  void bury(Connection& c);
  void set_state(Connection& c, State state);
  int wait_time();
  void run_timers();
  bool watch(int fd, std::uint64_t token, std::uint32_t events);

  struct Slot {
    enum Kind { empty, joined, lost, departed } kind = empty;
    Connection* connection = nullptr;
  };

  // Who may join, and when all have: hub_formation.cc.
  void on_hello(Connection& c, const Frame& frame);
  Refusal place_in_roster(Connection& c);
  bool takes_epoch_of(const Hello& hello);
  bool may_take_epoch() const;
  void expel(Slot& slot, const std::string& why);
  void find_forming_deadline();
  bool is_still_there(Connection& c);
  static Refusal claimed_twice(const Connection& first, const Connection& second);
  /// `claimed_twice`, unless it is in doubt whether the first is still there.
  Refusal dispute(Connection& first, Connection& second);
  void admit(Connection& c);
  void refuse(Connection& c, const Refusal& refusal);
  void note_offence(const Refusal& refusal);
  void send_verdict(Connection& c, Reason reason, const std::string& text);
  void begin_forming(std::uint64_t epoch, Deadline deadline);
  void start_if_complete();
  void fail_formation(FailureKind kind, const std::string& text);
  void formation_timers();
  void send_progress();
  std::string roll_call() const;
  std::vector<std::uint32_t> missing_ranks() const;

  // Connections over which nothing comes: hub_silence.cc.
  std::string describe_silence(const Connection& c) const;
  bool holds_in_doubt(Connection& newcomer, Connection& before);
  bool is_in_doubt(const Connection& newcomer) const;
  void settle_doubts();

  // What ranks say and how they go: hub_members.cc.
  void on_member_frame(Connection& c, const Frame& frame);
  void on_rejoin(const Rejoin& rejoin);
  void on_leave(Connection& c, const Leave& leave);
  void on_call(const Call& call);
  void lose(Connection& c, const std::string& how);
  void fail(FailureKind kind, std::uint32_t rank, const std::string& text);
  void broadcast(const SharedFrame& frame);
  void close_gracefully(Connection& c);
  void close_all();

  const HubConfig config_;
  const std::shared_ptr<Listener> listener_;
  const std::shared_ptr<Logger> log_;
  const ProcessId self_;
  UniqueFd epoll_;

  std::uint64_t next_id_ = 1;
  std::unordered_map<std::uint64_t, std::unique_ptr<Connection>> connections_;
  std::vector<std::uint64_t> touched_;   ///< Written to, or dead, since the last flush.
  std::deque<std::uint64_t> strangers_;  ///< Handshaking or closing, oldest first.
  std::size_t stranger_count_ = 0;       ///< Those of them that still are.
  std::size_t max_strangers_ = 0;
  Deadline accept_paused_until_ = Deadline::never();
  bool accept_paused_ = false;

  Phase phase_ = Phase::idle;
  bool has_started_ = false;      ///< Some epoch has.
  std::uint64_t epoch_next_ = 0;  ///< The epoch that forms now, or will next.
  std::vector<Slot> slots_;
  std::uint32_t joined_ = 0;
  std::map<std::uint32_t, Connection*> parked_;
  struct Doubt {
    std::uint64_t newcomer, before;  ///< Connections, by id.
  };
  std::vector<Doubt> doubts_;
  Deadline forming_deadline_ = Deadline::never();
  Deadline offence_deadline_ = Deadline::never();
  Deadline progress_due_ = Deadline::never();
  FailureKind offence_kind_ = FailureKind::not_formed;
  std::string offence_;
  std::string last_refusal_;
  Exchanges exchanges_;
  bool failed_ = false;  ///< The first failure of this epoch was told.
  bool departure_told_ = false;
  std::uint64_t least_done_ = kNotCounted;  ///< By those of whom all were told.
  std::uint64_t called_ = 0;
  std::uint64_t root_done_ = kNotCounted;
  bool stopping_ = false;
  bool left_in_order_ = false;

  std::thread thread_;
};

}  // namespace comm::detail
