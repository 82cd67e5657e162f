#include "comm/launch/commrun/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "comm/rendezvous/sockets.h"

namespace comm::commrun {
namespace {

using detail::UniqueFd;

bool make_pipe(UniqueFd& read_end, UniqueFd& write_end) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  read_end.reset(ends[0]);
  write_end.reset(ends[1]);
  return true;
}

// Between fork and exec only what is async-signal-safe is called.
[[noreturn]] void become_rank(pid_t parent, int out, int err, int report, int listener,
                              char* const* arguments, char* const* environment) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // It died before the line above took hold.
  if (listener >= 0) {
    ::fcntl(listener, F_SETFD, 0);
  }
  if (listener < 0 || ::isatty(STDIN_FILENO) == 1) {
    const int null = ::open("/dev/null", O_RDONLY);
    if (null >= 0) ::dup2(null, STDIN_FILENO);
    if (null > STDERR_FILENO) ::close(null);
  }
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execvpe(arguments[0], arguments, environment);
  const int e = errno;
  [[maybe_unused]] const ssize_t n = ::write(report, &e, sizeof e);
  ::_exit(127);
}

}  // namespace

Result<Job> Job::make(int ranks, std::vector<std::string> command) {
  Result<detail::LocalJob> local = detail::LocalJob::make(ranks, "commrun");
  if (!local.ok()) return std::move(local).status();
  Job job;
  job.local_ = std::move(*local);
  job.command_ = std::move(command);
  return job;
}

Result<Child> Job::start(int rank) {
  const auto failed = [&](const char* what, int e) {
    return make_error(StatusCode::internal, e, "cannot %s for rank %d: %s", what, rank,
                      detail::error_text(e).c_str());
  };
  Child child;
  UniqueFd out, err, report_read, report;
  if (!make_pipe(child.out, out) || !make_pipe(child.err, err) || !make_pipe(report_read, report)) {
    return failed("make pipes", errno);
  }
  std::vector<std::string> command = command_, variables = local_.environment(rank);
  const std::vector<char*> arguments = detail::c_strings(command),
                           environment = detail::c_strings(variables);
  const pid_t self = ::getpid();
  child.pid = ::fork();
  if (child.pid < 0) return failed("make a process", errno);
  if (child.pid == 0) {
    become_rank(self, out.get(), err.get(), report.get(), rank == 0 ? local_.listener() : -1,
                arguments.data(), environment.data());
  }
  ::setpgid(child.pid, child.pid);  // Also here, so that the group exists before it is signalled.
  report.reset();
  int e = 0;
  ssize_t n = 0;
  do {
    n = ::read(report_read.get(), &e, sizeof e);
  } while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(sizeof e)) {
    ::waitpid(child.pid, nullptr, 0);
    return make_error(StatusCode::invalid_argument, e, "cannot run '%s': %s", command_[0].c_str(),
                      detail::error_text(e).c_str());
  }
  ::fcntl(child.out.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(child.err.get(), F_SETFL, O_NONBLOCK);
  return child;
}

Guard::Guard() {
  UniqueFd read_end;
  if (!make_pipe(read_end, pipe_)) return;
  pid_ = ::fork();
  if (pid_ != 0) return;
  ::setsid();
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  pipe_.reset();
  // Nobody should wait for the end of commrun's output because of this process.
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(fd);
  ::prctl(PR_SET_NAME, "commrun-guard");
  std::array<pid_t, 4096> groups{};
  int message = 0;
  while (::read(read_end.get(), &message, sizeof message) == static_cast<ssize_t>(sizeof message)) {
    if (message == 0) ::_exit(0);
    const auto slot = std::find(groups.begin(), groups.end(), message > 0 ? 0 : -message);
    if (slot != groups.end()) *slot = message > 0 ? message : 0;
  }
  for (const pid_t group : groups) {
    if (group > 0) ::kill(-group, SIGKILL);
  }
  ::_exit(0);
}

Guard::~Guard() {
  if (pid_ <= 0) return;
  tell(0);
  ::waitpid(pid_, nullptr, 0);
}

void Guard::add(pid_t group) {
  tell(group);
}
void Guard::remove(pid_t group) {
  tell(-group);
}

void Guard::tell(int message) {
  // A guard that is gone can only have been killed; the job goes on without.
  [[maybe_unused]] const ssize_t n = ::write(pipe_.get(), &message, sizeof message);
}

}  // namespace comm::commrun
