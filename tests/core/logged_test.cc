// comm/decorators/logged.h and comm/log.h.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "comm/decorators/logged.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "comm/log.h"
#include "comm/testing/expect.h"
#include "tests/core/recording_backend.h"

using comm::DeviceSpan, comm::LogSink, comm::ReduceOp, comm::StatusCode;
using tests::RecordingBackend;

namespace {

struct Fixture {
  tests::Recording recording;
  std::vector<std::string> lines;
  float memory[16] = {};
  float other[16] = {};

  LogSink sink() {
    auto keep = [](void* lines, const char* line) {
      static_cast<std::vector<std::string>*>(lines)->push_back(line);
    };
    return LogSink(keep, &lines);
  }
  RecordingBackend make() { return std::move(*RecordingBackend::create({1, 4, &recording})); }
  comm::Communicator<comm::Logged<RecordingBackend>> logging() {
    return comm::Communicator(comm::Logged(make(), sink()));
  }
  DeviceSpan<float> send(std::size_t count) { return {memory, count}; }
  DeviceSpan<float> recv(std::size_t count) { return {other, count}; }
};

/// What `write` sends to stderr.
template <class F>
std::string captured(F write) {
  int ends[2] = {};
  REQUIRE(::pipe(ends) == 0);
  const int before = ::dup(STDERR_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  write();
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  ::close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(n));
  }
  ::close(ends[0]);
  return text;
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "logged: a line says who, what, how much and how it went") {
  auto c = logging();
  CHECK(c.all_reduce(send(5), ReduceOp::premul_sum(0.5)).ok());
  CHECK(c.broadcast(DeviceSpan<std::byte>(reinterpret_cast<std::byte*>(memory), 3), 2).ok());
  CHECK(c.send_recv(send(3), 2, recv(7), 0, reinterpret_cast<CUstream_st*>(0x40)).ok());
  const std::size_t counts[4] = {1, 2, 3, 4};
  CHECK(c.all_to_all_v(send(10), counts, recv(10), counts).ok());
  CHECK(c.register_buffer(send(4)).ok());
  CHECK(c.barrier().ok());
  CHECK(c.split(3, 0).ok());
  const std::vector<std::string> expected = {
      "comm: rank=1 world=4 epoch=3 seq=1 op=all_reduce type=f32 count=5 bytes=20 "
      "reduce=premul_sum(0.5) stream=own result=ok\n",
      "comm: rank=1 world=4 epoch=3 seq=2 op=broadcast type=u8 count=3 bytes=3 root=2 stream=own "
      "result=ok\n",
      "comm: rank=1 world=4 epoch=3 seq=3 op=send_recv type=f32 count=3 bytes=12 peer=2 source=0 "
      "stream=given result=ok\n",
      "comm: rank=1 world=4 epoch=3 seq=4 op=all_to_all_v type=f32 count=10 bytes=40 stream=own "
      "result=ok\n",
      "comm: rank=1 world=4 epoch=3 seq=5 op=register_buffer bytes=16 result=ok\n",
      "comm: rank=1 world=4 epoch=3 seq=6 op=barrier stream=own result=ok\n",
      "comm: rank=1 world=4 epoch=3 seq=7 op=split color=3 result=ok\n",
  };
  CHECK(lines == expected);
}

TEST_CASE_FIXTURE(Fixture, "logged: an error is in the line, in one line") {
  auto c = logging();
  recording.answer = StatusCode::peer_lost;
  CHECK(c.barrier_wait().code() == StatusCode::peer_lost);
  CHECK(c.all_reduce_deferred(send(1)).code() == StatusCode::peer_lost);
  REQUIRE(lines.size() == 2);
  comm::testing::expect_part(lines[0], "op=barrier_wait result=peer_lost: as prepared\n");
  comm::testing::expect_part(lines[1], "op=all_reduce_deferred type=f32 count=1");

  const std::string message(5000, '\n');
  comm::detail::write_log_line(sink(), {comm::info_of(comm::ops::Barrier{}), 0, 1},
                               StatusCode::internal, message.c_str());
  CHECK(lines.back().find('\n') == lines.back().size() - 1);
  CHECK(lines.back().size() < 1100);
}

TEST_CASE_FIXTURE(Fixture, "logged: what arguments refuse is no submission") {
  auto c = logging();
  CHECK_FALSE(c.broadcast(send(1), 9).ok());
  CHECK(lines.empty());
}

TEST_CASE_FIXTURE(Fixture, "logged: abort has a line without a sequence number") {
  auto c = logging();
  CHECK(c.abort().ok());
  CHECK(c.barrier().ok());
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "comm: rank=1 world=4 op=abort result=ok\n");
  comm::testing::expect_part(lines[1], "seq=1 ");
}

TEST_CASE_FIXTURE(Fixture, "logged: what is split off logs to the same place, from 1") {
  auto c = logging();
  CHECK(c.barrier().ok());
  auto half = c.split(0, 1);
  REQUIRE(half.ok());
  CHECK(half->barrier().ok());
  CHECK(lines.back() == "comm: rank=1 world=2 epoch=3 seq=1 op=barrier stream=own result=ok\n");
}

TEST_CASE_FIXTURE(Fixture, "logged: COMM_DIAGNOSTICS decides when the communicator is made") {
  const comm::Communicator<comm::Logged<RecordingBackend>>::BackendType::Config config{1, 4,
                                                                                       &recording};
  auto run = [&](const char* value) {
    return captured([&] {
      value == nullptr ? ::unsetenv("COMM_DIAGNOSTICS") : ::setenv("COMM_DIAGNOSTICS", value, 1);
      auto made = comm::Communicator<comm::Logged<RecordingBackend>>::create(config);
      // Read once: what the environment says later is too late.
      ::setenv("COMM_DIAGNOSTICS", "1", 1);
      CHECK(made->barrier().ok());
      ::unsetenv("COMM_DIAGNOSTICS");
    });
  };
  CHECK(run(nullptr) == "");
  CHECK(run("0") == "");
  CHECK(run("yes") == "");
  CHECK(run("1") == "comm: rank=1 world=4 epoch=3 seq=1 op=barrier stream=own result=ok\n");
}

TEST_CASE("log: the default sink leaves errno alone, also where nobody listens") {
  const int before = ::dup(STDERR_FILENO);
  ::close(STDERR_FILENO);
  errno = 7;
  LogSink()("into the void\n");
  const int after = errno;
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  CHECK(after == 7);
}
