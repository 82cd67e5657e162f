#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/rendezvous/support.h"

using namespace comm;
using namespace comm::test;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

using Channel = std::unique_ptr<OutOfBand>;
using Clock = std::chrono::steady_clock;

// Runs `body` on every rank of a job that has started.
void on_all(int size, const std::function<void(int rank, Channel& channel)>& body) {
  const Job job(size);
  job.run([&](int rank) {
    auto channel = OutOfBand::join(job.config(rank));
    REQUIRE_MESSAGE(channel.ok(), channel.message());
    body(rank, *channel);
  });
}

Status wait_until_lost(OutOfBand& channel) {
  for (;;) {
    Status status = channel.check();
    if (!status.ok()) return status;
    std::this_thread::yield();
  }
}

bool has(const Status& status, std::string_view part) {
  const bool found = std::string_view(status.message()).find(part) != std::string_view::npos;
  if (!found) MESSAGE("not in: ", std::string(status.message()));
  return found;
}

}  // namespace

TEST_CASE("exchange: payloads of any size arrive whole and in rank order") {
  const Watchdog watchdog("payloads");
  for (const int size : {1, 2, 5}) {
    on_all(size, [&](int rank, Channel& channel) {
      for (const std::size_t bytes :
           {std::size_t{0}, std::size_t{1}, std::size_t{4096}, OutOfBand::kMaxPayload}) {
        const std::string mine(bytes + (bytes < 4097 ? static_cast<std::size_t>(rank) : 0),
                               static_cast<char>('a' + rank));
        const auto all = channel->all_gather(bytes_of(mine), seconds(20));
        REQUIRE_MESSAGE(all.ok(), all.message());
        REQUIRE(all->size() == static_cast<std::size_t>(size));
        for (int r = 0; r < size; ++r) {
          const Bytes& each = (*all)[static_cast<std::size_t>(r)];
          CHECK(each.size() == bytes + (bytes < 4097 ? static_cast<std::size_t>(r) : 0));
          CHECK(text_of(each) == std::string(each.size(), static_cast<char>('a' + r)));
        }
        const int root = size - 1;
        const auto sent = channel->broadcast(bytes_of(mine), root, seconds(20));
        REQUIRE_MESSAGE(sent.ok(), sent.message());
        CHECK(text_of(*sent) == text_of((*all)[static_cast<std::size_t>(root)]));
        CHECK(channel->barrier(seconds(20)).ok());
      }
    });
  }
}

TEST_CASE("exchange: what cannot be meant is refused on the spot and costs no sequence number") {
  const Watchdog watchdog("refused arguments");
  on_all(2, [&](int rank, Channel& channel) {
    const std::string large(OutOfBand::kMaxPayload + 1, 'x');
    if (rank == 1) {
      CHECK(channel->all_gather(bytes_of(large), seconds(5)).code() ==
            StatusCode::invalid_argument);
      CHECK(channel->broadcast({}, 2, seconds(5)).code() == StatusCode::invalid_argument);
      CHECK(channel->broadcast({}, -1, seconds(5)).code() == StatusCode::invalid_argument);
    }
    CHECK(channel->barrier(seconds(20)).ok());
  });
}

TEST_CASE("exchange: ranks that call different things all learn which") {
  const Watchdog watchdog("different calls");
  on_all(3, [&](int rank, Channel& channel) {
    const Status status = rank == 1 ? channel->broadcast({}, 1, seconds(20)).status().copy()
                                    : channel->barrier(seconds(20));
    CHECK(status.code() == StatusCode::mismatch);
    CHECK(has(status, "broadcast(root 1)"));
    CHECK(has(status, "barrier"));
    CHECK(channel->check().ok());
    CHECK(channel->barrier(seconds(20)).ok());  // And go on in step.
  });
}

TEST_CASE("exchange: a rank that stays away is named on all, and the late one is told the same") {
  const Watchdog watchdog("stays away");
  std::atomic<int> failed{0};
  on_all(3, [&](int rank, Channel& channel) {
    if (rank == 2) {
      while (failed < 2) std::this_thread::yield();
    }
    const Status status = channel->barrier(rank == 2 ? seconds(20) : milliseconds(300));
    CHECK(status.code() == StatusCode::timeout);
    CHECK(has(status, "2 of 3 ranks came to barrier in time; missing rank 2"));
    ++failed;
    CHECK(channel->barrier(seconds(20)).ok());
  });
}

TEST_CASE("exchange: several threads take turns") {
  const Watchdog watchdog("turns");
  on_all(2, [&](int, Channel& channel) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) CHECK(channel->barrier(seconds(20)).ok());
      });
    }
    for (int i = 0; i < 1000; ++i) CHECK(channel->check().ok());
    for (std::thread& thread : threads) thread.join();
  });
}

TEST_CASE("channel: a rank's own failure reaches all, and the first cause stays") {
  const Watchdog watchdog("notify");
  on_all(3, [&](int rank, Channel& channel) {
    CHECK(channel->barrier(seconds(20)).ok());
    if (rank == 1) {
      channel->notify("GPU 3 fell off the bus");
      channel->notify("a second thought");
    }
    const Status status = wait_until_lost(*channel);
    CHECK(status.code() == StatusCode::unhealthy);
    CHECK(has(status, "rank 1 reported a failure: GPU 3 fell off the bus"));
    CHECK(channel->lost_rank() == -1);
    CHECK(channel->barrier(seconds(20)).code() == StatusCode::unhealthy);
  });
}

TEST_CASE("FAULTS 31: an exchange under way ends at once when a rank fails") {
  const Watchdog watchdog("fails in exchange");
  on_all(3, [&](int rank, Channel& channel) {
    if (rank == 2) return channel->notify("initialisation failed");
    const auto began = Clock::now();
    const Status status = channel->barrier(seconds(40));
    CHECK(has(status, "rank 2 reported a failure: initialisation failed"));
    CHECK(Clock::now() - began < seconds(10));
  });
}

TEST_CASE("leave: is no failure to those who look, and one to those who need the rank") {
  const Watchdog watchdog("leave");
  for (const int leaver : {0, 1}) {
    on_all(3, [&](int rank, Channel& channel) {
      CHECK(channel->barrier(seconds(20)).ok());
      if (rank == leaver) {
        channel->leave();
        channel->leave();
        CHECK(channel->check().ok());
        CHECK(channel->barrier(seconds(1)).code() == StatusCode::peer_lost);
        return;
      }
      while (channel->departed_rank() < 0) CHECK(channel->check().ok());
      CHECK(channel->departed_rank() == leaver);
      CHECK(channel->lost_rank() == -1);
      const Status status = channel->barrier(seconds(20));
      CHECK(status.code() == StatusCode::peer_lost);
      // Rank 0, too, may have come to its end meanwhile.
      CHECK(has(status, "has left"));
      CHECK(channel->check().ok());
    });
  }
}

TEST_CASE("leave: those that go on hear of the one that did the least, rank 0 too") {
  const Watchdog watchdog("did the least");
  for (const int last : {0, 3}) {
    const int leavers[] = {1, 2, last};
    const std::uint64_t done[] = {5, 3, 2};
    std::atomic<int> turn{-1};
    on_all(4, [&](int rank, Channel& channel) {
      CHECK(channel->barrier(seconds(20)).ok());
      CHECK(channel->departure().rank == -1);
      CHECK(channel->barrier(seconds(20)).ok());
      for (int k = 0; k < 3; ++k) {
        if (rank == leavers[k]) {
          while (turn < k) std::this_thread::yield();
          channel->conclude(done[k]);
          return channel->leave();
        }
        if (rank != 3 - last) continue;
        turn = k;
        while (channel->departure().rank != leavers[k]) CHECK(channel->check().ok());
        CHECK(channel->departure().done == done[k]);
      }
      CHECK(channel->departed_rank() == 1);
    });
  }
}

TEST_CASE("call: each rank finds the greatest number that any called") {
  const Watchdog watchdog("call");
  on_all(3, [&](int rank, Channel& channel) {
    CHECK(channel->called() == 0);
    CHECK(channel->barrier(seconds(20)).ok());
    for (std::uint64_t number = 1; number <= 20; ++number) {
      if (static_cast<int>(number) % 3 == rank) channel->call(number);
      if (static_cast<int>(number) % 2 == rank) channel->call(number - 1);
      while (channel->called() < number) CHECK(channel->check().ok());
      CHECK(channel->called() == number);
      CHECK(channel->barrier(seconds(20)).ok());
    }
  });
}

TEST_CASE("leave: rank 0 first, all at once, or last: nobody reads it as a loss") {
  const Watchdog watchdog("ends");
  for (int round = 0; round < 30; ++round) {
    on_all(4, [&](int rank, Channel& channel) {
      CHECK(channel->barrier(seconds(20)).ok());
      if (round % 3 == 2 && rank == 0) std::this_thread::yield();
      if (round % 3 == 0 && rank != 0) {
        while (channel->departed_rank() < 0) CHECK(channel->check().ok());
      }
      channel->leave();
      CHECK(channel->check().ok());
    });
  }
}

TEST_CASE("fork: the child neither speaks nor closes, and its destructor leaves the parent alone") {
  const Watchdog watchdog("fork");
  // The child is forked on rank 1, beside rank 0's service in the same process.
  on_all(2, [&](int rank, Channel& channel) {
    CHECK(channel->barrier(seconds(20)).ok());
    if (rank == 1) {
      const pid_t child = ::fork();
      if (child == 0) {
        const bool refused = channel->barrier(seconds(1)).code() == StatusCode::unsupported &&
                             channel->check().code() == StatusCode::unsupported;
        channel->notify("from the child");
        channel->leave();
        channel.reset();
        ::_exit(refused ? 0 : 1);
      }
      int status = 0;
      CHECK(::waitpid(child, &status, 0) == child);
      CHECK(status == 0);
    }
    for (int i = 0; i < 10; ++i) CHECK(channel->barrier(seconds(20)).ok());
    CHECK(channel->check().ok());
  });
}

TEST_CASE("channel: nothing is left open when a communicator has ended") {
  const Watchdog watchdog("leaks");
  const std::size_t descriptors = open_descriptors(), threads = thread_count();
  for (int i = 0; i < 20; ++i) {
    on_all(3, [&](int rank, Channel& channel) {
      if (i % 2 == 0) CHECK(channel->barrier(seconds(20)).ok());
      if (i % 4 == 1 && rank == 2) channel->notify("broken");
    });
  }
  CHECK(open_descriptors() == descriptors);
  CHECK(thread_count() == threads);
}
