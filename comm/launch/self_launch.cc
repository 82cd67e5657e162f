#include "comm/launch/self_launch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/rendezvous/listener.h"

namespace comm {
namespace {

constexpr const char* kMark = "COMM_SELF_LAUNCHED";

/// In the child: says who it is, and becomes this program anew.
[[noreturn]] void become(int rank, int ranks, const Listener& listener, char* const* argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // Ranks do not outlive the program that waits for them.
  const std::string r = std::to_string(rank);
  const std::string n = std::to_string(ranks);
  setenv(kMark, "1", 1);
  setenv("COMM_RANK", r.c_str(), 1);
  setenv("COMM_WORLD_SIZE", n.c_str(), 1);
  setenv("COMM_LOCAL_RANK", r.c_str(), 1);
  setenv("COMM_LOCAL_WORLD_SIZE", n.c_str(), 1);
  setenv("COMM_ROOT_ADDR", listener.address().c_str(), 1);
  setenv("COMM_ROOT_PORT", std::to_string(listener.port()).c_str(), 1);
  if (rank == 0) {
    setenv("COMM_LISTEN_FD", std::to_string(listener.fd()).c_str(), 1);
    fcntl(listener.fd(), F_SETFD, 0);  // It was made close-on-exec.
  }
  execv("/proc/self/exe", argv);
  std::fprintf(stderr, "cannot start rank %d: %s\n", rank, std::strerror(errno));
  _exit(127);
}

void stop(const std::vector<pid_t>& ranks) {
  for (const pid_t pid : ranks) {
    if (pid > 0) kill(pid, SIGTERM);
  }
}

/// Waits for all; when one fails the others end.
int wait_for(std::vector<pid_t> ranks) {
  int first_failure = 0;
  for (std::size_t left = ranks.size(); left > 0;) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, 0);
    if (ended < 0 && errno == EINTR) continue;
    if (ended < 0) break;
    for (pid_t& pid : ranks) {
      if (pid != ended) continue;
      pid = 0;
      --left;
      const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      if (code != 0 && first_failure == 0) {
        first_failure = code;
        stop(ranks);
      }
    }
  }
  return first_failure;
}

}  // namespace

bool was_self_launched() {
  return std::getenv(kMark) != nullptr;
}

Result<int> launch_self(int ranks, char* const* argv) {
  Result<std::shared_ptr<Listener>> listener = Listener::bind("127.0.0.1", 0);
  if (!listener.ok()) return std::move(listener).status();

  std::vector<pid_t> started;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) become(rank, ranks, **listener, argv);
    if (pid < 0) {
      const int error = errno;
      stop(started);
      wait_for(std::move(started));
      return make_error(StatusCode::internal, error, "cannot start rank %d of %d: %s", rank, ranks,
                        std::strerror(error));
    }
    started.push_back(pid);
  }
  listener->reset();
  return wait_for(std::move(started));
}

}  // namespace comm
