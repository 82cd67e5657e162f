#pragma once

/// Starting the ranks. Each leads a process group of its own, so that whatever it starts can be
/// ended with it, and is killed by the kernel if commrun dies.

#include <sys/types.h>

#include <string>
#include <vector>

#include "comm/launch/local_job.h"
#include "comm/rendezvous/unique_fd.h"
#include "comm/result.h"

namespace comm::commrun {

struct Child {
  pid_t pid = -1;  ///< And its process group.
  detail::UniqueFd out, err;
};

/// A job whose ranks' output commrun reads.
class Job {
 public:
  static Result<Job> make(int ranks, std::vector<std::string> command);

  Result<Child> start(int rank);

  void release_port() { local_.release_port(); }

 private:
  detail::LocalJob local_;
  std::vector<std::string> command_;
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
