#include "comm/launch/self_launch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "comm/launch/local_job.h"
#include "comm/rendezvous/deadline.h"

namespace comm {
namespace {

using detail::Deadline;

// Names the process that launched this one, so that what a rank starts is not taken for a rank.
constexpr const char* kMark = "COMM_SELF_LAUNCHED";

constexpr auto kGrace = std::chrono::milliseconds(5000);  // Between SIGTERM and SIGKILL.

/// In the child, where only what is async-signal-safe is called: becomes this program anew.
[[noreturn]] void become_rank(pid_t parent, int listener, char* const* argv,
                              char* const* environment) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);   // Ranks do not outlive the program that waits for them.
  if (getppid() != parent) _exit(1);  // It died before the line above took hold.
  if (listener >= 0) fcntl(listener, F_SETFD, 0);
  execve("/proc/self/exe", argv, environment);
  constexpr char kComplaint[] = "comm: this program cannot start itself again\n";
  [[maybe_unused]] const ssize_t n = write(STDERR_FILENO, kComplaint, sizeof kComplaint - 1);
  _exit(127);
}

void signal_all(const std::vector<pid_t>& ranks, int number) {
  for (const pid_t pid : ranks) {
    if (pid > 0) kill(pid, number);
  }
}

/// Waits for all; when one fails the others end, by force if they do not within the grace.
int wait_for(std::vector<pid_t> ranks) {
  int first_failure = 0;
  Deadline kill_at = Deadline::never();
  for (std::size_t left = ranks.size(); left > 0;) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, first_failure == 0 ? 0 : WNOHANG);
    if (ended < 0 && errno == EINTR) continue;
    if (ended < 0) break;
    if (ended == 0) {
      if (kill_at.passed()) {
        kill_at = Deadline::never();
        signal_all(ranks, SIGKILL);
      }
      usleep(5000);
      continue;
    }
    for (pid_t& pid : ranks) {
      if (pid != ended) continue;
      pid = 0;
      --left;
      const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      if (code != 0 && first_failure == 0) {
        first_failure = code;
        kill_at = Deadline::in(kGrace);
        signal_all(ranks, SIGTERM);
      }
    }
  }
  return first_failure;
}

}  // namespace

bool was_self_launched() {
  const char* launcher = std::getenv(kMark);
  return launcher != nullptr && launcher == std::to_string(getppid());
}

Result<int> launch_self(int ranks, char* const* argv) {
  Result<detail::LocalJob> job = detail::LocalJob::make(ranks, "self");
  if (!job.ok()) return std::move(job).status();

  const pid_t self = getpid();
  const std::string mark = std::string(kMark) + "=";
  std::vector<pid_t> started;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::string> variables = job->environment(rank);
    std::erase_if(variables, [&](const std::string& v) { return v.starts_with(mark); });
    variables.push_back(mark + std::to_string(self));
    const std::vector<char*> environment = detail::c_strings(variables);
    const pid_t pid = fork();
    if (pid == 0) become_rank(self, rank == 0 ? job->listener() : -1, argv, environment.data());
    if (pid < 0) {
      const int error = errno;
      signal_all(started, SIGKILL);
      wait_for(std::move(started));
      return make_error(StatusCode::internal, error, "cannot start rank %d of %d: %s", rank, ranks,
                        std::strerror(error));
    }
    started.push_back(pid);
  }
  job->release_port();
  return wait_for(std::move(started));
}

}  // namespace comm
