// Checked over Host: each difference is named on every rank, before anything is done.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "comm/backends/host.h"
#include "comm/decorators/checked.h"
#include "comm/decorators/logged.h"
#include "comm/testing/expect.h"
#include "comm/testing/run_ranks.h"
#include "tests/decorators/mismatches.h"

using comm::Checked, comm::Communicator, comm::DeviceSpan, comm::Host, comm::StatusCode;
using comm::testing::expect, comm::testing::expect_ok, comm::testing::expect_part;

namespace {

using C = Communicator<Checked<Host>>;

/// `body` on each rank of a world whose collectives may take so long.
template <class Comm = C, class Body>
void run(int ranks, Body body, std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  auto configure = [&](comm::LaunchConfig launch) {
    Host::Config config;
    config.launch = std::move(launch);
    config.collective_timeout = timeout;
    config.log = [](std::string_view) {};
    return config;
  };
  comm::testing::run_ranks<typename Comm::BackendType>(ranks, configure, body);
}

/// What follows "seq N: " in an error, which is the same everywhere.
std::string sides(const std::string& message) {
  const std::size_t at = message.find("ranks make different calls");
  return at == std::string::npos ? "not a mismatch: " + message : message.substr(at);
}

}  // namespace

TEST_CASE("checked: every difference is named on every rank with both sides, and nothing is done") {
  for (const int ranks : {2, 4}) {
    for (const auto& mismatch : tests::mismatches<C>()) {
      std::mutex mutex;
      std::set<std::string> said;
      run(ranks, [&](C& c) {
        INFO(mismatch.name, ", rank ", c.rank(), " of ", ranks);
        std::vector<float> memory(1024, 1.0f);
        expect_ok(c.barrier());
        comm::Status s = mismatch.call(c, memory.data(), c.rank() == 1);
        comm::testing::expect_code(s, StatusCode::mismatch);
        for (const char* side : mismatch.sides) expect_part(s.message(), side);
        expect(memory == std::vector<float>(1024, 1.0f));
        expect(!c.is_healthy());
        comm::Status refused = c.barrier();
        comm::testing::expect_code(refused, StatusCode::unhealthy);
        expect_part(refused.message(), sides(s.message()));
        const std::lock_guard lock(mutex);
        said.insert(sides(s.message()));
      });
      CHECK_MESSAGE(said.size() == 1, mismatch.name);
    }
  }
}

TEST_CASE("checked: between processes, too") {
  const auto all = tests::mismatches<C>();
  for (std::size_t i : {std::size_t{0}, std::size_t{2}, std::size_t{10}}) {
    constexpr int kRanks = 2;
    auto listener = comm::Listener::bind("127.0.0.1", 0);
    REQUIRE(listener.ok());
    pid_t pids[kRanks];
    for (int rank = 0; rank < kRanks; ++rank) {
      pids[rank] = ::fork();
      REQUIRE(pids[rank] >= 0);
      if (pids[rank] != 0) continue;
      ::alarm(60);
      Host::Config config;
      config.launch = comm::LaunchConfig::local(rank, kRanks, (*listener)->port());
      if (rank == 0) config.launch->listener = *listener;
      config.log = [](std::string_view) {};
      int missing = 100;
      {
        auto c = C::create(config);
        float memory[1024] = {};
        if (c.ok()) {
          comm::Status s = all[i].call(*c, memory, rank == 1);
          missing = s.code() == StatusCode::mismatch ? 0 : 50;
          for (const char* side : all[i].sides)
            missing += std::string(s.message()).find(side) == std::string::npos ? 1 : 0;
        }
      }
      ::_exit(missing);
    }
    for (const pid_t pid : pids) {
      int status = 0;
      REQUIRE(::waitpid(pid, &status, 0) == pid);
      CHECK_MESSAGE(status == 0, all[i].name);
    }
  }
}

TEST_CASE("checked: all ranks alike go through, in all forms, groups and sizes") {
  run(3, [](C& c) {
    std::vector<float> a(64, 1.0f), b(64 * 3);
    const DeviceSpan<float> one(a.data(), 64), all(b.data(), b.size());
    for (int i = 0; i < 20; ++i) {
      expect_ok(c.all_reduce(one.first(static_cast<std::size_t>(i))));
      expect_ok(c.all_gather(one, all));
    }
    // Each rank may choose its form.
    if (c.rank() == 0) {
      expect_ok(c.all_reduce(one));
      expect_ok(c.barrier());
    } else {
      expect_ok(c.all_reduce_async(one));
      expect_ok(c.barrier_wait());
    }
    expect_ok(c.all_reduce(one, comm::ReduceOp::premul_sum(c.rank() + 1.0)));
    auto group = c.group();
    expect_ok(c.all_reduce(one));
    {
      auto inner = c.group();
      expect_ok(c.all_reduce(one));
    }
    expect_ok(c.all_reduce(one));
    expect_ok(group.end());
    // What concerns two ranks is not compared, in whichever groups.
    if (c.rank() == 0) {
      auto pair = c.group();
      expect_ok(c.send_to(one, 1));
      expect_ok(c.send_to(one, 1));
    } else if (c.rank() == 1) {
      expect_ok(c.recv_from(one, 0));
      expect_ok(c.recv_from(one, 0));
    }
    std::size_t send[3], recv[3];
    for (int r = 0; r < 3; ++r) {
      send[r] = static_cast<std::size_t>(c.rank() * 3 + r);
      recv[r] = static_cast<std::size_t>(r * 3 + c.rank());
    }
    expect_ok(c.all_to_all_v(one.first(send[0] + send[1] + send[2]), send,
                             all.first(recv[0] + recv[1] + recv[2]), recv));
    expect_ok(c.barrier_wait());
  });
}

TEST_CASE("checked: a worker waits for its command beyond the deadline of collectives") {
  std::latch late(2);
  run(
      2,
      [&](C& c) {
        std::uint32_t word = 7;
        const DeviceSpan<std::uint32_t> command(&word, 1);
        if (c.rank() == 0) {
          late.arrive_and_wait();
          expect_ok(c.broadcast(command, 0));
          comm::testing::expect_code(c.recv_command_u32(command, 0), StatusCode::invalid_argument);
        } else {
          word = 0;
          std::thread other([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(600));
            late.arrive_and_wait();
          });
          expect_ok(c.recv_command_u32(command, 0));
          expect(word == 7);
          other.join();
        }
        expect_ok(c.barrier_wait());
      },
      std::chrono::milliseconds(300));
}

TEST_CASE("checked: a rank that does not come is named, with the call it did not come to") {
  std::latch others(3);
  run(
      4,
      [&](C& c) {
        float x = 1;
        expect_ok(c.barrier());
        if (c.rank() == 2) return others.wait();
        comm::Status s = c.all_reduce(DeviceSpan<float>(&x, 1));
        expect(s.code() == StatusCode::timeout);
        expect_part(s.message(), "before seq 2, all_reduce(f32, 1 elements, sum): ");
        expect_part(s.message(), "for rank 2 (last seen in ");
        expect(!c.is_healthy());
        others.count_down();
      },
      std::chrono::milliseconds(200));
}

TEST_CASE("checked: what is split off is compared by itself; a reconnect starts anew") {
  std::latch is_shrunk(4);
  run(4, [&](C& c) {
    float x = 1;
    {
      auto half = c.split(c.rank() % 2, -c.rank());
      expect_ok(half);
      if (!half.ok()) return;
      // The halves call different things, and different often.
      for (int i = 0; i < 1 + c.rank() % 2; ++i) expect_ok(half->barrier());
      if (c.rank() % 2 == 1) {
        comm::Status s = half->all_reduce(DeviceSpan<float>(&x, half->rank() == 0 ? 1 : 0));
        expect(s.code() == StatusCode::mismatch);
        expect(!half->is_healthy());
      }
      expect(c.is_healthy());
    }
    auto none = c.split(c.rank() == 0 ? comm::kNoColor : 0, 0);
    expect_ok(none);
    expect_ok(c.barrier_wait());
    comm::Status s = c.all_reduce(DeviceSpan<float>(&x, c.rank() == 3 ? 0 : 1));
    expect(s.code() == StatusCode::mismatch);
    expect_part(s.message(), "ranks 0, 1, 2: all_reduce(f32, 1 elements, sum); rank 3: all_reduce");
    auto rest = c.rank() == 3 ? comm::Result<C>(s.copy()) : c.shrink({3});
    if (c.rank() != 3) {
      expect_ok(rest);
      if (rest.ok()) expect_ok(rest->barrier_wait());
    }
    is_shrunk.arrive_and_wait();  // A reconnect ends what was made before.
    expect_ok(c.attempt_reconnect());
    expect_ok(c.all_reduce(DeviceSpan<float>(&x, 1)));
    s = c.all_reduce(DeviceSpan<float>(&x, c.rank() == 3 ? 0 : 1));
    expect_part(s.message(), "at seq 2: ");
  });
}

TEST_CASE("checked: with the log around it the refused call is a line, within it none is") {
  std::mutex mutex;
  std::vector<std::string> lines;
  auto configure = [&](comm::LaunchConfig launch) {
    Host::Config config;
    config.launch = std::move(launch);
    config.log_levels = comm::LogLevels(comm::LogLevel::trace);
    config.log = [&](std::string_view line) {
      const std::lock_guard lock(mutex);
      lines.emplace_back(line);
    };
    return config;
  };
  const auto differ = [](auto& c) {
    float x = 1;
    expect(!c.all_reduce(DeviceSpan<float>(&x, c.rank() == 0 ? 1 : 0)).ok());
  };
  const auto count = [&](const char* part) {
    std::size_t found = 0;
    for (const std::string& line : lines) found += line.find(part) != std::string::npos ? 1 : 0;
    return found;
  };
  comm::testing::run_ranks<comm::Logged<Checked<Host>>>(2, configure, differ);
  CHECK(count("op=all_reduce type=f32 count=1") == 1);
  CHECK(count("result=mismatch: ranks make") + count("result=mismatch: all_reduce on rank") == 2);
  CHECK(count("host error: unhealthy: all_reduce on rank ") == 2);
  lines.clear();
  comm::testing::run_ranks<Checked<comm::Logged<Host>>>(2, configure, differ);
  CHECK(count("op=all_reduce") == 0);
  CHECK(count("host error: unhealthy: all_reduce on rank ") == 2);
}
