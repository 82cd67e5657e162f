#pragma once

/// Starting the ranks. Each leads a process group of its own, so that whatever it starts can be
/// ended with it, and is killed by the kernel if commrun dies.

#include <sys/types.h>

#include <string>
#include <vector>

#include "comm/rendezvous/unique_fd.h"
#include "comm/result.h"

namespace comm::commrun {

struct Child {
  pid_t pid = -1;  ///< And its process group.
  detail::UniqueFd out, err;
};

/// What the ranks of a job have in common.
class Job {
 public:
  /// Takes a free port of the loopback address and draws the job's id and secret.
  static Result<Job> make(int ranks, std::vector<std::string> command);

  Result<Child> start(int rank);

  /// From now on the port is rank 0's alone: if that dies, others are refused instead of waiting.
  void release_port() { listener_.reset(); }

 private:
  std::vector<std::string> environment(int rank) const;

  int ranks_ = 0;
  std::vector<std::string> command_;
  detail::UniqueFd listener_;
  std::string port_, id_, secret_;
};

/// A process that kills all groups it was told of if commrun vanishes: those that ranks started
/// themselves are out of the kernel's reach then.
class Guard {
 public:
  Guard();
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  void add(pid_t group);
  void remove(pid_t group);

 private:
  void tell(int message);

  detail::UniqueFd pipe_;
  pid_t pid_ = -1;
};

}  // namespace comm::commrun
