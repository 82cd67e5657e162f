#pragma once

/// Runs a job to its end: reads what ranks print, hands signals on, and when one fails ends the rest.

#include <sys/types.h>

#include <memory>
#include <optional>
#include <vector>

#include "comm/launch/commrun/options.h"
#include "comm/launch/commrun/output.h"
#include "comm/launch/commrun/spawn.h"
#include "comm/rendezvous/deadline.h"

namespace comm::commrun {

class Supervisor {
 public:
  explicit Supervisor(const Options& options);

  /// The status that commrun exits with.
  int run();

 private:
  struct Stream {
    detail::UniqueFd fd;
    LineReader reader;
  };
  struct Rank {
    pid_t pid = -1;  ///< -1 once it has ended.
    std::vector<Stream> streams;
  };

  int start_all(Job& job);
  void step();
  void read_stream(Stream& stream);
  void handle_signal(int number);
  void reap();
  void on_end(int rank, int status);
  void end_all(const char* why);
  void signal_all(int number);
  bool has_open_streams() const;
  bool all_ended() const;
  void say(const std::string& text);
  void flush_output();

  const Options& options_;
  Guard guard_;
  detail::UniqueFd signals_;
  Sink out_, err_;
  std::vector<Rank> ranks_;
  int status_ = 0;
  bool decided_ = false;  ///< `status_` is final: the first cause counts.
  bool was_signalled_ = false;
  detail::Deadline time_is_up_ = detail::Deadline::never();
  detail::Deadline kill_at_ = detail::Deadline::never();
};

}  // namespace comm::commrun
