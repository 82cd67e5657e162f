// Ranks of Host as processes that go wrong, each in its way: what their dumps say together is the truth.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "comm/backends/host.h"

#include <dirent.h>
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "comm/decorators/recorded.h"
#include "comm/health/dump_on_signal.h"
#include "comm/rendezvous/listener.h"
#include "comm/testing/watchdog.h"
#include "comm/trace/analysis.h"
#include "comm/trace/reader.h"

namespace {

using Communicator = comm::Communicator<comm::Recorded<comm::Host>>;
using comm::DeviceSpan;
using std::chrono::milliseconds;

float numbers[64];

DeviceSpan<float> floats(std::size_t count) {
  return {numbers, count};
}

/// A process for each rank, whose recorder has a folder to dump to.
class Ranks {
 public:
  using Body = std::function<void(Communicator&)>;

  Ranks(int size, milliseconds timeout, const Body& body) : watchdog_("ranks of Host") {
    const char* root = std::getenv("TEST_TMPDIR");
    folder_ = std::string(root == nullptr ? "/tmp" : root) + "/dumps.XXXXXX";
    REQUIRE(::mkdtemp(folder_.data()) != nullptr);
    auto listener = comm::Listener::bind("127.0.0.1", 0);
    REQUIRE(listener.ok());
    std::fflush(nullptr);
    for (int rank = 0; rank < size; ++rank) {
      const pid_t pid = ::fork();
      REQUIRE(pid >= 0);
      if (pid == 0) {
        ::alarm(100);
        ::_exit(run(rank, size, timeout, *listener, body));
      }
      pids_.push_back(pid);
    }
  }
  ~Ranks() {
    for (const pid_t pid : pids_)
      if (pid > 0) ::kill(pid, SIGKILL);
    for (std::size_t i = 0; i < pids_.size(); ++i) wait_for(static_cast<int>(i));
  }

  void send(int rank, int signal) const { ::kill(pids_[static_cast<std::size_t>(rank)], signal); }
  /// Returns when it has stopped.
  void stop(int rank) const {
    send(rank, SIGSTOP);
    ::waitpid(pids_[static_cast<std::size_t>(rank)], nullptr, WUNTRACED);
  }
  void wait_for(int rank) {
    pid_t& pid = pids_[static_cast<std::size_t>(rank)];
    if (pid > 0) ::waitpid(pid, nullptr, 0);
    pid = 0;
  }
  void wait_for_all_but(int rank) {
    for (std::size_t i = 0; i < pids_.size(); ++i)
      if (static_cast<int>(i) != rank) wait_for(static_cast<int>(i));
  }

  /// The dumps of as many ranks as are to have one, as soon as they are there.
  std::vector<comm::trace::Dump> dumps(std::size_t count) const {
    for (;;) {
      std::vector<comm::trace::Dump> found;
      DIR* dir = ::opendir(folder_.c_str());
      while (const dirent* entry = ::readdir(dir)) {
        const std::string name = entry->d_name;
        if (name.size() < 5 || name.substr(name.size() - 5) != ".json") continue;
        auto dump = comm::trace::read_dump(folder_ + "/" + name);
        REQUIRE_MESSAGE(dump.ok(), dump.message());
        found.push_back(std::move(*dump));
      }
      ::closedir(dir);
      if (found.size() >= count) return found;
      std::this_thread::yield();
    }
  }

  /// What comm_trace says first. `patience_ns`: see analysis.h.
  std::string sentence(std::size_t count, std::int64_t patience_ns = 1'000'000'000) const {
    const auto worlds = comm::trace::sort_into_worlds(dumps(count));
    REQUIRE(worlds.size() == 1);
    const comm::trace::View view(worlds[0], patience_ns);
    const comm::trace::Report report = comm::trace::analyse(view);
    return report.findings.empty() ? report.otherwise : report.findings[0].sentence;
  }

 private:
  int run(int rank, int size, milliseconds timeout, std::shared_ptr<comm::Listener> listener,
          const Body& body) const {
    comm::Host::Config config;
    config.launch = comm::LaunchConfig::local(rank, size, listener->port());
    if (rank == 0) config.launch->listener = std::move(listener);
    config.collective_timeout = timeout;
    config.log = [](std::string_view) {};
    ::setenv("COMM_RECORDER_DIR", folder_.c_str(), 1);
    auto made = Communicator::create(config);
    if (!made.ok()) return std::fprintf(stderr, "rank %d: %s\n", rank, made.message()), 1;
    body(*made);
    std::fflush(nullptr);
    return 0;
  }

  comm::testing::Watchdog watchdog_;
  std::string folder_;
  std::vector<pid_t> pids_;
};

constexpr milliseconds kSoon(400);
constexpr milliseconds kNever(90'000);

/// Two collectives on which all agree.
void begin(Communicator& c) {
  if (!c.all_reduce(floats(8)).ok() || !c.barrier().ok()) std::abort();
}

}  // namespace

TEST_CASE("a rank that calls something else is named, with both calls") {
  Ranks ranks(4, kNever, [](Communicator& c) {
    begin(c);
    if (c.rank() == 2)
      c.broadcast(floats(4), 0).ignore();
    else
      c.all_reduce(floats(4)).ignore();
  });
  CHECK(ranks.sentence(4) ==
        "rank 2 called broadcast (f32 x 4, root 0) as collective 3 of epoch 0, where ranks 0, 1, 3 "
        "called all_reduce (f32 x 4, sum): the operations differ");
}

TEST_CASE("a rank that passes another count is named, with both counts") {
  Ranks ranks(3, kNever, [](Communicator& c) {
    begin(c);
    c.all_reduce(floats(c.rank() == 1 ? 5 : 4)).ignore();
  });
  CHECK(
      ranks.sentence(3) ==
      "rank 1 called all_reduce (f32 x 5, sum) as collective 3 of epoch 0, where ranks 0, 2 called "
      "all_reduce (f32 x 4, sum): the counts differ");
}

TEST_CASE("a rank that does not come is named, with what it did last") {
  Ranks ranks(4, kSoon, [](Communicator& c) {
    begin(c);
    if (c.rank() != 2) return c.all_reduce(floats(4)).ignore();
    while (c.is_healthy()) std::this_thread::yield();
    comm::recorder_of(c).dump().ignore();
  });
  CHECK(ranks.sentence(4) ==
        "rank 2 did not submit collective 3 of epoch 0, all_reduce (f32 x 4, sum), that ranks 0, "
        "1, 3 "
        "submitted; its last submission was barrier, collective 2, complete");
}

TEST_CASE("a rank that is killed has no dump, which is said") {
  Ranks ranks(4, kNever, [](Communicator& c) {
    begin(c);
    if (c.rank() == 2) ::raise(SIGKILL);
    c.all_reduce(floats(4)).ignore();
  });
  CHECK(ranks.sentence(3) ==
        "there is no dump of rank 2; ranks 0, 1, 3 submitted collective 3 of epoch 0, "
        "all_reduce (f32 x 4, sum), and did not complete it");
}

TEST_CASE("a rank that is stopped has no dump, and the others' show what hangs, on a signal") {
  Ranks ranks(4, kNever, [](Communicator& c) {
    begin(c);
    auto guard = comm::DumpOnSignal::install(SIGUSR2, comm::recorder_of(c));
    if (!guard.ok() || !c.barrier().ok()) std::abort();
    if (c.rank() == 2) {
      comm::recorder_of(c).dump().ignore();  // The parent's sign.
      for (;;) ::pause();
    }
    c.all_reduce(floats(4)).ignore();
  });
  const std::string sign = ranks.dumps(1).front().file;
  ranks.stop(2);
  ::unlink(sign.c_str());
  std::string sentence;
  // They may not be in the collective yet; then the next signal finds them there.
  do {
    for (const int rank : {0, 1, 3}) ranks.send(rank, SIGUSR2);
    sentence = ranks.sentence(3, 0);
  } while (sentence.find("collective 4") == std::string::npos);
  CHECK(sentence ==
        "there is no dump of rank 2; ranks 0, 1, 3 submitted collective 4 of epoch 0, "
        "all_reduce (f32 x 4, sum), and did not complete it");
}

TEST_CASE("two ranks that both wait for a message are told of it") {
  Ranks ranks(2, kSoon, [](Communicator& c) {
    begin(c);
    c.recv_from(floats(4), 1 - c.rank()).ignore();
  });
  CHECK(ranks.sentence(2) ==
        "rank 1's recv_from (f32 x 4, from rank 0) in epoch 0 has no partner: rank 0 submitted 0 "
        "sends to rank 1, and this is receive 1");
}

TEST_CASE("a healthy world has nothing wrong, also where one is ahead") {
  Ranks ranks(3, kNever, [](Communicator& c) {
    begin(c);
    comm::recorder_of(c).dump().ignore();
    if (!c.barrier().ok()) std::abort();
  });
  const std::string sentence = ranks.sentence(3);
  CHECK_MESSAGE(
      sentence.find("nothing wrong found: the ranks agree on all collectives; epoch 0, 2") == 0,
      sentence);
}
