#include "comm/launch/commrun/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace comm::commrun {
namespace {

using detail::Deadline;
using detail::Milliseconds;

constexpr int kTimeoutStatus = 124;
constexpr int kHandedOn[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP};

bool ends_a_job(int number) {
  return number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT;
}

}  // namespace

Supervisor::Supervisor(const Options& options)
    : options_(options), out_(STDOUT_FILENO), err_(STDERR_FILENO) {
  sigset_t watched;
  ::sigemptyset(&watched);
  ::sigaddset(&watched, SIGCHLD);
  for (const int number : kHandedOn) {
    // Whoever started commrun with a signal ignored (nohup) means it for the ranks as well.
    struct sigaction before {};
    ::sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_IGN) ::sigaddset(&watched, number);
  }
  ::sigprocmask(SIG_BLOCK, &watched, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  signals_.reset(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
}

void Supervisor::say(const std::string& text) {
  err_.write("commrun: " + text + "\n");
}

int Supervisor::run() {
  Result<Job> job = Job::make(options_.ranks, options_.command);
  if (!job.ok()) {
    say(job.message());
    flush_output();
    return 1;
  }
  ranks_.resize(static_cast<std::size_t>(options_.ranks));
  if (options_.timeout) time_is_up_ = Deadline::in(*options_.timeout);
  if (const int failed = start_all(*job); failed != 0) {
    status_ = failed;
    decided_ = true;
    end_all("");
  }
  job->release_port();
  while (!all_ended()) step();
  // What the ranks left behind was killed with them, so every pipe comes to its end; a process that
  // made itself a group of its own may hold one open and is not waited for.
  const Deadline patience = Deadline::in(Milliseconds(500));
  while (has_open_streams() && !patience.passed()) {
    kill_at_ = patience;
    step();
  }
  for (Rank& rank : ranks_) {
    for (Stream& stream : rank.streams) stream.reader.finish();
  }
  flush_output();
  return status_;
}

int Supervisor::start_all(Job& job) {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const int rank = static_cast<int>(i);
    Result<Child> child = job.start(rank);
    if (!child.ok()) {
      say(child.message());
      const int e = child.status().native_code();
      return e == ENOENT ? 127 : 126;
    }
    guard_.add(child->pid);
    ranks_[i].pid = child->pid;
    ranks_[i].streams.push_back({std::move(child->out), LineReader(rank, out_)});
    ranks_[i].streams.push_back({std::move(child->err), LineReader(rank, err_)});
  }
  return 0;
}

// Waits for one round of events and handles them.
void Supervisor::step() {
  std::vector<pollfd> entries = {{signals_.get(), POLLIN, 0},
                                 {out_.has_waiting() ? out_.fd() : -1, POLLOUT, 0},
                                 {err_.has_waiting() ? err_.fd() : -1, POLLOUT, 0}};
  std::vector<Stream*> streams;
  for (Rank& rank : ranks_) {
    for (Stream& stream : rank.streams) {
      if (!stream.fd || stream.reader.is_paused()) continue;
      entries.push_back({stream.fd.get(), POLLIN, 0});
      streams.push_back(&stream);
    }
  }
  const Deadline next = time_is_up_.earlier(kill_at_);
  const bool for_ever = next.when() == detail::Clock::time_point::max();
  if (::poll(entries.data(), entries.size(), for_ever ? -1 : next.poll_timeout()) < 0) return;

  if (entries[1].revents != 0) out_.flush_some();
  if (entries[2].revents != 0) err_.flush_some();
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (entries[i + 3].revents != 0) read_stream(*streams[i]);
  }
  signalfd_siginfo info;
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    handle_signal(static_cast<int>(info.ssi_signo));
  }
  if (out_.is_broken() && !decided_) {
    status_ = 128 + SIGPIPE;
    decided_ = true;
    end_all("nobody reads the output any more");
  }
  if (time_is_up_.passed()) {
    time_is_up_ = Deadline::never();
    if (!decided_) status_ = kTimeoutStatus;
    decided_ = true;
    end_all("the time is up");
  }
  if (kill_at_.passed()) {
    kill_at_ = Deadline::never();
    signal_all(SIGKILL);
  }
}

void Supervisor::read_stream(Stream& stream) {
  std::array<char, 16 * 1024> buffer;
  const ssize_t n = ::read(stream.fd.get(), buffer.data(), buffer.size());
  if (n > 0) return stream.reader.append({buffer.data(), static_cast<std::size_t>(n)});
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  stream.reader.finish();
  stream.fd.reset();
}

void Supervisor::handle_signal(int number) {
  if (number == SIGCHLD) return reap();
  if (ends_a_job(number)) {
    if (was_signalled_) {
      say("second signal; killing all ranks");
      if (!decided_) status_ = 128 + number;
      decided_ = true;
      return signal_all(SIGKILL);
    }
    was_signalled_ = true;
  }
  signal_all(number);
  if (number == SIGTSTP) ::raise(SIGSTOP);
}

void Supervisor::reap() {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    if (rank.pid < 0) continue;
    siginfo_t info{};
    // Left as a zombie at first: its group's number cannot go to others before the group is gone.
    if (::waitid(P_PID, static_cast<id_t>(rank.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0) {
      continue;
    }
    ::kill(-rank.pid, SIGKILL);
    guard_.remove(rank.pid);
    ::waitpid(rank.pid, nullptr, 0);
    rank.pid = -1;
    on_end(static_cast<int>(i), info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status);
  }
}

void Supervisor::on_end(int rank, int status) {
  if (status == 0 || decided_) return;
  status_ = status;
  decided_ = true;
  if (was_signalled_) {
    // All were told to end already, and each ends in its own way.
    kill_at_ = kill_at_.earlier(Deadline::in(options_.grace));
    return;
  }
  const std::string how = status > 128 ? "was ended by signal " + std::to_string(status - 128) +
                                             " (" + std::string(::strsignal(status - 128)) + ")"
                                       : "exited with status " + std::to_string(status);
  say("rank " + std::to_string(rank) + " " + how);
  end_all("");
}

void Supervisor::end_all(const char* why) {
  if (why[0] != '\0') say(std::string(why) + "; ending the ranks");
  signal_all(SIGTERM);
  signal_all(SIGCONT);  // A stopped rank could not hear it.
  kill_at_ = Deadline::in(options_.grace);
}

void Supervisor::signal_all(int number) {
  for (const Rank& rank : ranks_) {
    if (rank.pid > 0) ::kill(-rank.pid, number);
  }
}

bool Supervisor::has_open_streams() const {
  for (const Rank& rank : ranks_) {
    for (const Stream& stream : rank.streams) {
      if (stream.fd) return true;
    }
  }
  return false;
}

bool Supervisor::all_ended() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.pid < 0; });
}

void Supervisor::flush_output() {
  for (Sink* sink : {&out_, &err_}) {
    while (sink->has_waiting() && !sink->is_broken()) {
      pollfd entry{sink->fd(), POLLOUT, 0};
      // Whoever reads the output may be slow, but not for ever.
      if (::poll(&entry, 1, 60'000) == 0) break;
      sink->flush_some();
    }
  }
}

}  // namespace comm::commrun
