#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/rendezvous/support.h"

using namespace comm;
using namespace comm::test;
using detail::Hello;
using detail::Reason;
using detail::Verdict;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

using Clock = std::chrono::steady_clock;

bool joins(const RendezvousConfig& config) {
  const auto channel = OutOfBand::join(config);
  if (!channel.ok()) MESSAGE(std::string(channel.message()));
  return channel.ok() && (*channel)->barrier(seconds(20)).ok();
}

std::string why_not(const RendezvousConfig& config) {
  const auto channel = OutOfBand::join(config);
  return channel.ok() ? "joined" : channel.message();
}

bool has(const std::string& text, std::string_view part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE("not in: ", text);
  return found;
}

}  // namespace

TEST_CASE("formation: ranks that come in any order start the same session of the same epoch") {
  const Watchdog watchdog("any order");
  for (const int size : {1, 2, 3, 8}) {
    Job job(size);
    std::vector<std::string> sessions(static_cast<std::size_t>(size));
    job.run([&](int rank) {
      auto channel = OutOfBand::join(job.config(rank));
      REQUIRE(channel.ok());
      CHECK((*channel)->rank() == rank);
      CHECK((*channel)->world_size() == size);
      CHECK((*channel)->epoch() == 0);
      CHECK((*channel)->check().ok());
      CHECK((*channel)->lost_rank() == -1);
      sessions[static_cast<std::size_t>(rank)] = (*channel)->session();
      CHECK((*channel)->barrier(seconds(20)).ok());
    });
    CHECK(sessions[0].size() == 32);
    for (const std::string& session : sessions) CHECK(session == sessions[0]);
  }
}

TEST_CASE("FAULTS 1: a port scan (0, 1, 7 bytes; FIN or RST) takes no rank's place") {
  const Watchdog watchdog("port scan");
  Job job(3);
  std::atomic<int> joined{0};
  std::thread scanner([&] {
    for (int round = 0; round < 20; ++round) {
      for (const std::string_view bytes : {"", "c", "comm/rd"}) {
        for (const bool hard : {false, true}) {
          Stranger stranger(job.port());
          if (!stranger.connected()) continue;
          stranger.say(bytes);
          if (hard) stranger.reset();
        }
      }
    }
  });
  job.run([&](int rank) { joined += joins(job.config(rank)) ? 1 : 0; });
  scanner.join();
  CHECK(joined == 3);
}

TEST_CASE("FAULTS 2: an HTTP GET that stays open and silent clients delay nobody") {
  const Watchdog watchdog("silent clients");
  Job job(4);
  job.base.launch.handshake_timeout = seconds(20);
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int i = 0; i < 40; ++i) {
    strangers.push_back(std::make_unique<Stranger>(job.port()));
    if (i % 2 == 0) strangers.back()->say("GET / HTTP/1.1\r\nHost: x\r\n");
  }
  const auto began = Clock::now();
  std::atomic<int> joined{0};
  job.run([&](int rank) { joined += joins(job.config(rank)) ? 1 : 0; });
  CHECK(joined == 4);
  // Far less than any handshake's deadline: nobody's was waited for.
  CHECK(Clock::now() - began < seconds(10));
}

TEST_CASE("formation: a client that never completes its hello is dropped at its own deadline") {
  const Watchdog watchdog("slow hello");
  Job job(2);
  job.base.launch.handshake_timeout = milliseconds(300);
  std::thread root([&] { CHECK(joins(job.config(0))); });
  Stranger silent(job.port()), slow(job.port());
  std::thread drip([&] {
    // A byte at a time never makes a hello within the time, however long it goes on.
    for (const std::byte b : detail::preface()) {
      if (!slow.say(detail::ByteSpan(&b, 1))) break;
      if (slow.is_hung_up(milliseconds(100))) return;
    }
    CHECK(slow.is_hung_up(seconds(20)));
  });
  CHECK(silent.is_hung_up(seconds(20)));
  drip.join();
  CHECK(joins(job.config(1)));
  root.join();
  CHECK(job.log.contains("no complete hello in time"));
}

TEST_CASE("FAULTS 3: two jobs on one port: the other job's rank is told, and neither is harmed") {
  const Watchdog watchdog("two jobs");
  Job job(2);
  std::thread root([&] { CHECK(joins(job.config(0))); });
  RendezvousConfig other = job.config(1);
  other.launch.job_id = "other";
  other.launch.init_timeout = milliseconds(500);
  const std::string text = why_not(other);
  CHECK(has(text, "another job's"));
  CHECK(has(text, "job id 'other', rank 0 has 'job'"));
  CHECK(joins(job.config(1)));
  root.join();
}

TEST_CASE("FAULTS 4: a port that is taken fails rank 0 at once, with host and port") {
  const Watchdog watchdog("port taken");
  Job job(2);  // Holds the port and never greets.
  RendezvousConfig root = job.config(0);
  root.launch.listener = nullptr;
  const auto began = Clock::now();
  const std::string text = why_not(root);
  CHECK(Clock::now() - began < seconds(10));
  CHECK(has(text, "127.0.0.1:" + std::to_string(job.port())));
  CHECK(has(text, "Address already in use"));

  RendezvousConfig worker = job.config(1);
  worker.launch.init_timeout = milliseconds(400);
  CHECK(has(why_not(worker), "not greeted"));
}

TEST_CASE("FAULTS 4: a worker turns a foreign greeting down and ends by its deadline") {
  const Watchdog watchdog("foreign greeting");
  auto listener = std::move(*Listener::bind("127.0.0.1", 0));
  std::atomic<bool> stop{false};
  std::thread foreigner([&] {
    while (!stop) {
      const int fd = ::accept(listener->fd(), nullptr, nullptr);
      if (fd < 0) {
        std::this_thread::yield();
        continue;
      }
      const detail::UniqueFd owned(fd);
      [[maybe_unused]] const ssize_t n = ::write(fd, "SSH-2.0-OpenSSH_9.2\r\n", 21);
    }
  });
  RendezvousConfig config;
  config.launch = LaunchConfig::local(1, 2, listener->port());
  config.launch.init_timeout = milliseconds(500);
  const auto channel = OutOfBand::join(config);
  stop = true;
  foreigner.join();
  CHECK(channel.code() == StatusCode::timeout);
  CHECK(has(channel.message(), "is not rank 0"));
}

TEST_CASE("FAULTS 8: with one rank missing all fail at the deadline and name it") {
  const Watchdog watchdog("missing rank");
  Job job(3);
  job.base.launch.init_timeout = milliseconds(1000);
  job.run({0, 1}, [&](int rank) {
    const auto channel = OutOfBand::join(job.config(rank));
    CHECK(channel.code() == StatusCode::timeout);
    CHECK(has(channel.message(), "2 of 3 joined, missing rank 2"));
  });
}

TEST_CASE("FAULTS 10: two processes claim one rank: the offender and the rest learn it") {
  const Watchdog watchdog("duplicate rank");
  for (const bool with_secret : {false, true}) {
    Job job(3);
    if (with_secret) job.base.launch.secret = "secret";
    std::atomic<int> told{0};
    const auto began = Clock::now();
    job.run({0, 1, 1}, [&](int rank) {
      told += has(why_not(job.config(rank)), "rank 1 was claimed twice: by pid") ? 1 : 0;
    });
    CHECK(told == 3);
    CHECK(Clock::now() - began < seconds(15));  // Not the job's thirty.
    CHECK(job.log.contains("duplicate rank"));
  }
}

TEST_CASE("FAULTS 14: a peer that stops right after connecting lets both sides time out") {
  const Watchdog watchdog("stops after connecting");
  Job job(2);
  job.base.launch.init_timeout = milliseconds(800);
  job.base.launch.handshake_timeout = milliseconds(300);
  std::thread root([&] { CHECK(has(why_not(job.config(0)), "1 of 2 joined, missing rank 1")); });
  Stranger stopped(job.port());
  CHECK(stopped.is_hung_up(seconds(20)));
  root.join();
}

TEST_CASE("formation: a hello that does not fit is turned away with its own reason") {
  const Watchdog watchdog("reasons");
  Job job(2);
  job.base.fingerprint = "chunk=64";
  job.base.launch.epoch = 0;  // Or rank 0 would take the epoch that a rank asks for.
  std::thread root([&] { CHECK(joins(job.config(0))); });
  const auto reason_for = [&](const std::function<void(Hello&)>& change) {
    Hello hello = hello_of(job.config(1));
    change(hello);
    Stranger stranger(job.port());
    Verdict verdict;
    REQUIRE(stranger.introduce(hello, verdict));
    CHECK_FALSE(verdict.text.empty());
    CHECK(stranger.is_hung_up(seconds(20)));
    return verdict.reason;
  };
  CHECK(reason_for([](Hello& h) { h.protocol = 2; }) == Reason::protocol_version);
  CHECK(reason_for([](Hello& h) { h.job_id = "x"; }) == Reason::job_id);
  CHECK(reason_for([](Hello& h) { h.rank = 2; }) == Reason::rank_range);
  CHECK(reason_for([](Hello& h) { h.rank = 0xffffffff; }) == Reason::rank_range);
  CHECK(reason_for([](Hello& h) { h.world_size = 3; }) == Reason::world_size);
  CHECK(reason_for([](Hello& h) { h.epoch = 1; }) == Reason::stale_epoch);
  CHECK(reason_for([](Hello& h) { h.backend = "nccl"; }) == Reason::backend);
  CHECK(reason_for([](Hello& h) { h.backend_version = "2"; }) == Reason::backend_version);
  CHECK(reason_for([](Hello& h) { h.fingerprint = "chunk=32"; }) == Reason::fingerprint);
  CHECK(reason_for([](Hello& h) { h.rank = 0; }) == Reason::duplicate_rank);
  CHECK(joins(job.config(1)));
  root.join();
  for (const char* reason :
       {"other protocol version", "other job id", "rank out of range", "other world size",
        "stale epoch", "other backend", "duplicate rank"}) {
    CHECK_MESSAGE(job.log.contains(reason), reason);
  }
}

TEST_CASE("FAULTS 15: ranks whose versions differ all learn it, in both versions' words") {
  const Watchdog watchdog("versions");
  Job job(3);
  std::atomic<int> told{0};
  job.run([&](int rank) {
    RendezvousConfig config = job.config(rank);
    if (rank == 2) config.backend_version = "2.18";
    const auto channel = OutOfBand::join(config);
    CHECK(channel.code() == StatusCode::mismatch);
    told += has(channel.message(), "backend version '2.18', rank 0 has '1'") ? 1 : 0;
  });
  CHECK(told == 3);
}

TEST_CASE("formation: a rank that goes before all have joined may come back") {
  const Watchdog watchdog("comes back");
  Job job(3);
  std::thread root([&] { CHECK(joins(job.config(0))); });
  for (const bool hard : {false, true, false}) {
    Stranger early(job.port());
    Verdict verdict;
    REQUIRE(early.introduce(hello_of(job.config(1)), verdict));
    CHECK(verdict.reason == Reason::none);
    if (hard) early.reset();
  }
  job.run({1, 2}, [&](int rank) { CHECK(joins(job.config(rank))); });
  root.join();
  CHECK(job.log.contains("is gone before all had joined"));
}

TEST_CASE("secret: both sides prove it, and whoever cannot is told so") {
  const Watchdog watchdog("secret");
  Job job(2);
  job.base.launch.secret = "right";
  std::thread root([&] { CHECK(joins(job.config(0))); });
  RendezvousConfig wrong = job.config(1);
  wrong.launch.secret = "wrong";
  CHECK(has(why_not(wrong), "does not know the secret"));
  wrong.launch.secret = "";
  CHECK(has(why_not(wrong), "rank 1 has no secret, but rank 0"));
  // A proof for another greeting is no proof.
  Hello hello = hello_of(job.config(1));
  Verdict verdict;
  Stranger replay(job.port());
  REQUIRE(replay.introduce(hello, verdict, ""));
  CHECK(verdict.reason == Reason::secret);
  CHECK(joins(job.config(1)));
  root.join();
  CHECK_FALSE(job.log.contains("right"));
}

TEST_CASE("secret: a root without one is refused before it learns anything") {
  const Watchdog watchdog("root without secret");
  Job job(2);
  job.base.launch.init_timeout = seconds(3);
  std::thread root([&] { CHECK(has(why_not(job.config(0)), "missing rank 1")); });
  RendezvousConfig config = job.config(1);
  config.launch.secret = "mine";
  CHECK(has(why_not(config), "rank 1 has a secret, but rank 0"));
  root.join();
}

TEST_CASE("secret: with one set, a stranger cannot end the job by claiming to be of it") {
  const Watchdog watchdog("stranger offends");
  Job job(2);
  job.base.launch.secret = "secret";
  std::thread root([&] { CHECK(joins(job.config(0))); });
  Hello hello = hello_of(job.config(1));
  hello.world_size = 9;
  Verdict verdict;
  Stranger stranger(job.port());
  REQUIRE(stranger.introduce(hello, verdict));
  CHECK(verdict.reason == Reason::secret);
  CHECK(joins(job.config(1)));
  root.join();
}
