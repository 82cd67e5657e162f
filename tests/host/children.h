#pragma once

/// `Children` are the processes of a test's ranks: it waits for them, and kills those that
/// nobody has waited for when it ends.

#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>

#include <cerrno>
#include <vector>

namespace ranks {

class Children {
 public:
  Children() = default;
  Children(const Children&) = delete;
  ~Children() {
    for (std::size_t r = 0; r < pids_.size(); ++r) {
      if (pids_[r] == 0) continue;
      kill(pids_[r], SIGKILL);
      wait_for(static_cast<int>(r));
    }
  }

  /// In rank order.
  void add(pid_t pid) { pids_.push_back(pid); }
  pid_t pid(int rank) const { return pids_[static_cast<std::size_t>(rank)]; }

  /// The exit status, or the negated signal.
  int wait_for(int rank) {
    pid_t& pid = pids_[static_cast<std::size_t>(rank)];
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  std::vector<pid_t> pids_;
};

}  // namespace ranks
