#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "comm/rendezvous/proof.h"
#include "tests/rendezvous/support.h"

using namespace comm;
using namespace comm::test;
using detail::Reason;
using detail::Verdict;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

bool has(const std::string& text, std::string_view part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE("not in: ", text);
  return found;
}

}  // namespace

TEST_CASE("rejoin: the next epoch forms at the same port, with a session of its own") {
  const Watchdog watchdog("rejoin");
  Job job(4);
  job.base.launch.secret = "secret";
  job.run([&](int rank) {
    auto channel = OutOfBand::join(job.config(rank));
    REQUIRE(channel.ok());
    std::string session = (*channel)->session();
    for (std::uint64_t epoch = 1; epoch <= 20; ++epoch) {
      if (epoch % 3 == 0 && rank == 1) (*channel)->notify("broken again");
      const Status status = (*channel)->rejoin(seconds(20));
      REQUIRE_MESSAGE(status.ok(), status.message());
      CHECK((*channel)->epoch() == epoch);
      CHECK((*channel)->session() != session);
      CHECK((*channel)->check().ok());
      CHECK((*channel)->barrier(seconds(20)).ok());
      session = (*channel)->session();
    }
  });
}

TEST_CASE("rejoin: a world of one counts its epochs") {
  auto alone = OutOfBand::join(RendezvousConfig());
  REQUIRE(alone.ok());
  CHECK((*alone)->epoch() == 0);
  (*alone)->notify("broken");
  CHECK((*alone)->check().code() == StatusCode::unhealthy);
  CHECK((*alone)->rejoin(seconds(1)).ok());
  CHECK((*alone)->epoch() == 1);
  CHECK((*alone)->check().ok());
}

TEST_CASE("rejoin: a rank whose process was started again takes its place in the new epoch") {
  const Watchdog watchdog("restarted rank");
  Job job(3);
  std::atomic<bool> gone{false};
  job.run([&](int rank) {
    auto channel = OutOfBand::join(job.config(rank));
    REQUIRE(channel.ok());
    REQUIRE((*channel)->barrier(seconds(20)).ok());
    if (rank == 2) {
      channel->reset();  // This rank's life ends; another begins below.
      gone = true;
      auto again = OutOfBand::join(job.config(2));
      REQUIRE_MESSAGE(again.ok(), again.message());
      CHECK((*again)->epoch() == 1);
      CHECK((*again)->barrier(seconds(20)).ok());
      return;
    }
    while (!gone) std::this_thread::yield();
    const Status status = (*channel)->rejoin(seconds(20));
    REQUIRE_MESSAGE(status.ok(), status.message());
    CHECK((*channel)->epoch() == 1);
    CHECK((*channel)->barrier(seconds(20)).ok());
  });
}

TEST_CASE("FAULTS 35: if one rank does not come back nobody starts, and all say who was missing") {
  const Watchdog watchdog("missing in rejoin");
  Job job(3);
  std::atomic<int> failed{0};
  job.run([&](int rank) {
    auto channel = OutOfBand::join(job.config(rank));
    REQUIRE(channel.ok());
    REQUIRE((*channel)->barrier(seconds(20)).ok());
    if (rank != 1) {
      const Status status = (*channel)->rejoin(milliseconds(1000));
      CHECK(status.code() == StatusCode::timeout);
      CHECK(has(status.message(), "missing rank 1"));
      CHECK((*channel)->check().code() == StatusCode::timeout);
      CHECK_FALSE((*channel)->barrier(seconds(1)).ok());
      ++failed;
    }
    while (failed < 2) std::this_thread::yield();
    // And with all of them there it goes on, in the epoch that was missed.
    const Status status = (*channel)->rejoin(seconds(20));
    REQUIRE_MESSAGE(status.ok(), status.message());
    CHECK((*channel)->epoch() == 1);
    CHECK((*channel)->barrier(seconds(20)).ok());
  });
}

TEST_CASE("FAULTS 35: one rank that rejoins alone fails by its deadline, whichever it is") {
  const Watchdog watchdog("alone in rejoin");
  for (const int lonely : {0, 2}) {
    Job job(3);
    std::atomic<bool> done{false};
    job.run([&](int rank) {
      auto channel = OutOfBand::join(job.config(rank));
      REQUIRE(channel.ok());
      REQUIRE((*channel)->barrier(seconds(20)).ok());
      if (rank == lonely) {
        CHECK((*channel)->rejoin(milliseconds(700)).code() == StatusCode::timeout);
        done = true;
      }
      while (!done) std::this_thread::yield();
      // The others are not left in the belief that all is well.
      if (rank != lonely) {
        while ((*channel)->check().ok()) std::this_thread::yield();
      }
    });
  }
}

TEST_CASE("rejoin: a rank 0 that was started again is told the epoch by those that were there") {
  const Watchdog watchdog("restarted rank 0");
  Job job(3);
  std::atomic<bool> gone{false};
  job.run([&](int rank) {
    auto channel = OutOfBand::join(job.config(rank));
    REQUIRE(channel.ok());
    for (std::uint64_t epoch = 1; epoch <= 2; ++epoch) {
      REQUIRE((*channel)->barrier(seconds(20)).ok());
      if (rank != 0 || epoch == 1) {
        const Status status = (*channel)->rejoin(seconds(20));
        REQUIRE_MESSAGE(status.ok(), status.message());
        CHECK((*channel)->epoch() == epoch);
        continue;
      }
      channel->reset();
      auto again = OutOfBand::join(job.config(0));
      REQUIRE_MESSAGE(again.ok(), again.message());
      CHECK((*again)->epoch() == 2);
      CHECK((*again)->barrier(seconds(20)).ok());
      return;
    }
    CHECK((*channel)->barrier(seconds(20)).ok());
  });
}

TEST_CASE("FAULTS 34: when all start again, what is left of the job before takes nobody's place") {
  const Watchdog watchdog("left over");
  Job job(3);
  std::unique_ptr<OutOfBand> left_over;
  job.run([&](int rank) {
    auto channel = OutOfBand::join(job.config(rank));
    REQUIRE(channel.ok());
    if (rank == 1) left_over = std::move(*channel);
  });
  std::atomic<bool> told{false};
  std::thread straggler([&] {
    const Status status = left_over->rejoin(seconds(20));
    CHECK(status.code() == StatusCode::rendezvous);
    CHECK_MESSAGE(has(status.message(), "a new process has its place"), status.message());
    told = true;
  });
  job.run([&](int rank) {
    while (rank == 2 && !told) std::this_thread::yield();
    auto channel = OutOfBand::join(job.config(rank));
    REQUIRE_MESSAGE(channel.ok(), channel.message());
    CHECK((*channel)->barrier(seconds(20)).ok());
  });
  straggler.join();
}

TEST_CASE("FAULTS 34: a straggler of an epoch that has passed is turned away as stale") {
  const Watchdog watchdog("straggler");
  Job job(2);
  std::atomic<bool> rejoined{false}, checked{false};
  std::thread straggler([&] {
    while (!rejoined) std::this_thread::yield();
    detail::Hello hello = hello_of(job.config(1));
    for (const std::uint64_t epoch : {0, 1}) {
      hello.epoch = epoch;
      Stranger late(job.port());
      Verdict verdict;
      REQUIRE(late.introduce(hello, verdict));
      CHECK(verdict.reason == Reason::stale_epoch);
      CHECK(verdict.epoch == 2);
      CHECK(late.is_hung_up(seconds(20)));
    }
    checked = true;
  });
  job.run([&](int rank) {
    auto channel = OutOfBand::join(job.config(rank));
    REQUIRE(channel.ok());
    REQUIRE((*channel)->rejoin(seconds(20)).ok());
    rejoined = true;
    while (!checked) std::this_thread::yield();
    CHECK((*channel)->check().ok());
    CHECK((*channel)->barrier(seconds(20)).ok());
  });
  straggler.join();
}

TEST_CASE("epoch: a second process for a rank that lives is a duplicate, and harms nobody") {
  const Watchdog watchdog("second process");
  Job job(2);
  std::atomic<int> ready{0};
  std::atomic<bool> checked{false};
  std::thread second([&] {
    while (ready < 2) std::this_thread::yield();
    const auto channel = OutOfBand::join(job.config(1));
    CHECK(has(channel.message(), "rank 1 was claimed twice"));
    checked = true;
  });
  job.run([&](int rank) {
    auto channel = OutOfBand::join(job.config(rank));
    REQUIRE(channel.ok());
    ++ready;
    while (!checked) std::this_thread::yield();
    CHECK((*channel)->barrier(seconds(20)).ok());
  });
  second.join();
}
