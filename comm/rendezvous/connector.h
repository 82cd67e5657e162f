#pragma once

/// A rank's way in: find rank 0, connect, prove, and wait until all have joined. Tries every address
/// again and again, with a growing and jittered pause, until the deadline or until rank 0 gives an
/// answer that trying again cannot change. Says now and then what it waits for.

#include <memory>
#include <string>

#include "comm/launch/launch_config.h"
#include "comm/logger.h"
#include "comm/rendezvous/address.h"
#include "comm/rendezvous/deadline.h"
#include "comm/rendezvous/frames.h"
#include "comm/rendezvous/log.h"
#include "comm/rendezvous/messages.h"
#include "comm/rendezvous/unique_fd.h"
#include "comm/result.h"

namespace comm::detail {

/// A connection over which an epoch has started.
struct Joined {
  UniqueFd fd;
  FrameReader reader{Side::root};
  ProcessId root;
  Start start;
};

class Connector {
 public:
  Connector(const LaunchConfig& launch, Hello hello, std::shared_ptr<Logger> log);

  /// For ranks other than 0.
  Result<Joined> join(Deadline deadline);

  /// For rank 0, whose connection is the pair to the service in its own process. Skips what the
  /// service still had to say about the epoch before `epoch`. `joined` keeps the pair either way.
  Status join_local(Joined& joined, std::uint64_t epoch, Deadline deadline);

  /// What rank 0 said the next epoch is, when it turned this rank away as stale; else 0.
  std::uint64_t epoch_hint() const { return epoch_hint_; }

 private:
  enum class Step { started, again, failed };

  Step try_all(Deadline deadline, Joined& joined);
  Step try_one(const SocketAddress& address, bool is_only, Deadline deadline, Joined& joined);
  bool connect_to(const SocketAddress& address, Deadline deadline, UniqueFd& fd);
  Step shake_hands(const std::string& where, Deadline patience, Deadline deadline, Joined& joined);
  Step judge(const std::string& where, const Greeting& greeting, const Verdict& verdict,
             Joined& joined);
  Step wait_for_start(Deadline deadline, Joined& joined);
  enum class Read { frame, closed, late, malformed };
  Read next_frame(Joined& joined, Deadline deadline, Frame& frame);

  Step fail(Status status);
  Step retry(std::string situation);
  void say_situation();
  Status timed_out() const;

  const LaunchConfig& launch_;
  Hello hello_;
  std::shared_ptr<Logger> log_;
  std::string situation_ = "rank 0 was not found";
  Status failure_;
  std::uint64_t epoch_hint_ = 0;
  Clock::time_point began_ = Clock::now();
  Deadline next_word_ = Deadline::never();
  Milliseconds word_pause_{10'000};
  std::string secret_trouble_;
};

/// The error that a rank returns for a failure that rank 0's service told it of.
Status to_status(const Failed& failed);

}  // namespace comm::detail
