// comm/health/dump_on_signal.h, with real signals.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>

#include "comm/health/dump_on_signal.h"
#include "comm/testing/watchdog.h"
#include "tests/recorder/recorder.h"

using comm::DumpOnSignal, comm::StatusCode;
using tests::Dump, tests::State;

namespace {

/// A sink that a test can wait for.
class Inbox {
 public:
  comm::RecorderOptions options() {
    comm::RecorderOptions options;
    options.context = this;
    options.sink = [](void* context, const char* json, std::size_t size) {
      auto& own = *static_cast<Inbox*>(context);
      const std::lock_guard<std::mutex> lock(own.mutex_);
      own.last_.assign(json, size);
      ++own.count_;
      own.arrived_.notify_all();
    };
    return options;
  }
  /// The watchdog is the bound.
  std::string wait_for(int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    arrived_.wait(lock, [&] { return count_ >= count; });
    return last_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  int count_ = 0;
  std::string last_;
};

using Rank = tests::Recorder<tests::TestBackend<false>>;

std::string said(int signal, const comm::FlightRecorder& recorder) {
  auto made = DumpOnSignal::install(signal, recorder);
  return made.ok() ? "ok" : made.message();
}

bool is_default(int signal) {
  struct sigaction now {};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_DFL;
}

}  // namespace

TEST_CASE("dump on signal: an operation that hangs is in the dump, as started") {
  const comm::testing::Watchdog watchdog("dump on signal");
  Inbox inbox;
  Rank rank(inbox.options());
  auto guard = DumpOnSignal::install(SIGUSR2, comm::recorder_of(rank.c));
  REQUIRE(guard.ok());
  std::string json;
  rank.recording.during = [&] {
    ::raise(SIGUSR2);
    json = inbox.wait_for(1);
  };
  CHECK(rank.c.barrier().ok());
  const Dump dump = tests::parsed(json);
  REQUIRE(dump.entries.size() == 1);
  CHECK(dump.entries[0].state == State::started);
  CHECK(json.find("\"reason\":\"signal\"") != std::string::npos);
  ::raise(SIGUSR2);  // And again.
  CHECK(tests::parsed(inbox.wait_for(2)).entries[0].state == State::complete);
}

TEST_CASE("dump on signal: one signal dumps every recorder that asked for it") {
  const comm::testing::Watchdog watchdog("several recorders");
  Inbox one, two;
  Rank a(one.options()), b(two.options());
  auto first = DumpOnSignal::install(SIGUSR1, comm::recorder_of(a.c));
  auto second = DumpOnSignal::install(SIGUSR1, comm::recorder_of(b.c));
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  ::raise(SIGUSR1);
  one.wait_for(1);
  two.wait_for(1);
  { DumpOnSignal gone(std::move(*first)); }
  CHECK_FALSE(is_default(SIGUSR1));
  ::raise(SIGUSR1);
  two.wait_for(2);
  { DumpOnSignal gone(std::move(*second)); }
  CHECK(is_default(SIGUSR1));
}

TEST_CASE("dump on signal: what cannot work is refused, with the reason") {
  Inbox inbox;
  Rank rank(inbox.options());
  const comm::FlightRecorder recorder = comm::recorder_of(rank.c);
  const auto expect = [](const std::string& text, const char* part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  expect(said(0, recorder), "no such signal");
  expect(said(1000, recorder), "no such signal");
  expect(said(SIGKILL, recorder), "signal 9: Invalid argument");
  expect(said(SIGSEGV, recorder), "faults raise it");
  expect(said(SIGUSR1, comm::FlightRecorder()), "nothing is recorded");
  ::unsetenv("COMM_RECORDER_DIR");
  expect(said(SIGUSR1, comm::recorder_of(Rank().c)), "COMM_RECORDER_DIR");
  ::signal(SIGUSR1, [](int) {});
  expect(said(SIGUSR1, recorder), "has a handler for it already");
  ::signal(SIGUSR1, SIG_DFL);
  CHECK(said(SIGUSR1, recorder) == "ok");
}

TEST_CASE("dump on signal: the child of a fork destroys its copy and ends") {
  const comm::testing::Watchdog watchdog("fork");
  Inbox inbox;
  Rank rank(inbox.options());
  auto guard = DumpOnSignal::install(SIGUSR2, comm::recorder_of(rank.c));
  REQUIRE(guard.ok());
  const pid_t child = ::fork();
  if (child == 0) {
    { DumpOnSignal gone(std::move(*guard)); }
    ::_exit(42);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 42);
  ::raise(SIGUSR2);
  inbox.wait_for(1);
}
