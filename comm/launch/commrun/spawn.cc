#include "comm/launch/commrun/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include "comm/rendezvous/address.h"
#include "comm/rendezvous/sockets.h"

namespace comm::commrun {
namespace {

using detail::UniqueFd;

// Set for each rank, or of no meaning to a job that commrun started.
constexpr const char* kOwnVariables[] = {"RANK",
                                         "WORLD_SIZE",
                                         "LOCAL_RANK",
                                         "LOCAL_WORLD_SIZE",
                                         "MASTER_ADDR",
                                         "MASTER_PORT",
                                         "COMM_RANK",
                                         "COMM_WORLD_SIZE",
                                         "COMM_LOCAL_RANK",
                                         "COMM_LOCAL_WORLD_SIZE",
                                         "COMM_ROOT_ADDR",
                                         "COMM_ROOT_PORT",
                                         "COMM_BIND",
                                         "COMM_RENDEZVOUS_FILE",
                                         "COMM_JOB_ID",
                                         "COMM_SECRET",
                                         "COMM_SECRET_FILE",
                                         "COMM_EPOCH",
                                         "COMM_LISTEN_FD",
                                         "TORCHELASTIC_USE_AGENT_STORE",
                                         "TORCHELASTIC_RUN_ID",
                                         "TORCHELASTIC_RESTART_COUNT"};

Result<std::string> random_hex(std::size_t bytes) {
  std::string raw(bytes, '\0');
  if (::getrandom(raw.data(), raw.size(), 0) != static_cast<ssize_t>(raw.size())) {
    return make_error(StatusCode::internal, errno, "no random bytes: %s",
                      detail::error_text(errno).c_str());
  }
  std::string out;
  for (const char c : raw) {
    constexpr char kDigits[] = "0123456789abcdef";
    const auto u = static_cast<unsigned char>(c);
    out += kDigits[u >> 4];
    out += kDigits[u & 15];
  }
  return out;
}

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

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& s : strings) out.push_back(s.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

Result<Job> Job::make(int ranks, std::vector<std::string> command) {
  Job job;
  job.ranks_ = ranks;
  job.command_ = std::move(command);
  detail::SocketAddress loopback;
  detail::parse_numeric("127.0.0.1", 0, loopback);
  Result<UniqueFd> listener = detail::listen_on(loopback, 4096);
  if (!listener.ok()) return std::move(listener).status();
  // Out of the way of the descriptors that a child rearranges.
  job.listener_.reset(::fcntl(listener->get(), F_DUPFD_CLOEXEC, 10));
  job.port_ = std::to_string(detail::local_address(job.listener_.get()).port());
  for (std::string* text : {&job.id_, &job.secret_}) {
    Result<std::string> drawn = random_hex(16);
    if (!drawn.ok()) return std::move(drawn).status();
    *text = std::move(*drawn);
  }
  return job;
}

std::vector<std::string> Job::environment(int rank) const {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    const bool own = std::any_of(std::begin(kOwnVariables), std::end(kOwnVariables),
                                 [&](const char* variable) { return name == variable; });
    if (!own) out.emplace_back(text);
  }
  const std::string self = std::to_string(rank), size = std::to_string(ranks_);
  out.push_back("RANK=" + self);
  out.push_back("WORLD_SIZE=" + size);
  out.push_back("LOCAL_RANK=" + self);
  out.push_back("LOCAL_WORLD_SIZE=" + size);
  out.push_back("MASTER_ADDR=127.0.0.1");
  out.push_back("MASTER_PORT=" + port_);
  out.push_back("COMM_JOB_ID=commrun-" + id_);
  out.push_back("COMM_SECRET=" + secret_);
  if (rank == 0) out.push_back("COMM_LISTEN_FD=" + std::to_string(listener_.get()));
  return out;
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
  std::vector<std::string> command = command_, variables = environment(rank);
  const std::vector<char*> arguments = pointers(command), environment = pointers(variables);
  const pid_t self = ::getpid();
  child.pid = ::fork();
  if (child.pid < 0) return failed("make a process", errno);
  if (child.pid == 0) {
    become_rank(self, out.get(), err.get(), report.get(), rank == 0 ? listener_.get() : -1,
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
