#pragma once

/// `LocalJob` is what the ranks of one job on this machine are given by the process that starts them:
/// a free port of the loopback address, held from now on, a job id and a secret drawn for this job
/// alone, and the environment that says all that. commrun and `launch_self` start theirs with it.
///
/// Thread safety: none; to be used by the one thread that starts the ranks.

#include <string>
#include <string_view>
#include <vector>

#include "comm/rendezvous/unique_fd.h"
#include "comm/result.h"

namespace comm::detail {

class LocalJob {
 public:
  LocalJob() = default;

  /// `name` begins the job's id.
  static Result<LocalJob> make(int ranks, std::string_view name);

  /// The environment of a rank: this process's own, without what would speak of another job.
  std::vector<std::string> environment(int rank) const;

  /// The listening socket. It is close-on-exec; rank 0 inherits it.
  int listener() const { return listener_.get(); }

  /// From now on the port is rank 0's alone: if that dies, others are refused instead of waiting.
  void release_port() { listener_.reset(); }

 private:
  int ranks_ = 0;
  UniqueFd listener_;
  std::string port_, id_, secret_;
};

/// What `execve` takes. Valid as long as `strings` is left alone.
std::vector<char*> c_strings(std::vector<std::string>& strings);

}  // namespace comm::detail
