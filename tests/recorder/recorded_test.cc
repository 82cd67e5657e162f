// comm/decorators/recorded.h over backends of which each operation is known to the nanosecond: what is
// kept, and how far it is said to have come.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "comm/decorators/recorded.h"

#include <dirent.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>

#include "comm/backends/single_gpu.h"
#include "comm/decorators/logged.h"
#include "tests/recorder/recorder.h"

using comm::DeviceSpan, comm::Operation, comm::ReduceOp, comm::RecorderOptions, comm::StatusCode;
using tests::Dump, tests::Entry, tests::State;

namespace {

using Backend = tests::TestBackend<false>;
using Host = tests::Recorder<Backend>;
using Gpu = tests::Recorder<tests::TestBackend<true>>;

const comm::Stream kStream(reinterpret_cast<CUstream_st*>(0x40));

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  DIR* dir = ::opendir(folder.c_str());
  REQUIRE(dir != nullptr);
  while (const dirent* entry = ::readdir(dir))
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  ::closedir(dir);
  return names;
}

std::string new_folder() {
  const char* root = std::getenv("TEST_TMPDIR");
  std::string folder = std::string(root == nullptr ? "/tmp" : root) + "/recorder.XXXXXX";
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  return folder;
}

}  // namespace

TEST_CASE("recorded: nothing is left of it where no data moves") {
  using Stack = comm::Recorded<comm::Logged<comm::Recorded<comm::SingleGpu>>>;
  static_assert(std::is_empty_v<comm::Communicator<Stack>>);
  auto c = std::move(*comm::Communicator<Stack>::create());
  CHECK_FALSE(comm::recorder_of(c).is_recording());
  CHECK(comm::recorder_of(c).to_json().empty());
  CHECK(comm::recorder_of(c).dump_to("/nowhere").code() == StatusCode::unsupported);
}

TEST_CASE_FIXTURE(Host, "recorded: an entry has all that the operation is about") {
  CHECK(c.all_reduce(buffer(5), ReduceOp::premul_sum(0.5), kStream).ok());
  CHECK(c.broadcast(buffer(3), 2).ok());
  CHECK(c.send_recv(buffer(3), 2, DeviceSpan<float>(memory + 8, 7), 0).ok());
  const std::size_t counts[4] = {1, 2, 3, 2};
  CHECK(c.all_to_all_v(buffer(8), counts, DeviceSpan<float>(memory + 8, 8), counts).ok());
  CHECK(c.register_buffer(buffer(4)).ok());
  CHECK(c.split(3, 9).ok());
  const Dump d = dump();
  CHECK(d.rank == 1);
  CHECK(d.world_size == 4);
  CHECK(d.epoch == 3);
  CHECK(d.collectives == 4);
  CHECK(d.submissions == 6);
  REQUIRE(d.entries.size() == 6);
  const Entry& reduce = d.entries[0];
  CHECK(reduce.op == Operation::all_reduce);
  CHECK(reduce.type == comm::DataType::f32);
  CHECK(reduce.count == 5);
  CHECK(reduce.reduction == static_cast<std::uint8_t>(ReduceOp::Kind::premul_sum));
  CHECK(reduce.stream == 1);
  CHECK(reduce.collective == 1);
  CHECK(reduce.state == State::complete);
  CHECK(reduce.ended >= reduce.submitted);
  CHECK(d.entries[1].partner == 2);
  CHECK(d.entries[1].stream == 0);
  CHECK(d.entries[1].collective == 2);
  const Entry& both = d.entries[2];
  CHECK(both.collective == 0);
  CHECK(both.partner == 2);
  CHECK(both.source == 0);
  CHECK(both.count == 3);
  CHECK(both.recv_count == 7);
  CHECK(d.entries[3].count == 8);
  CHECK(d.entries[3].recv_count == 8);
  CHECK(d.entries[4].count == 16);
  CHECK(d.entries[5].partner == 3);
  CHECK(d.entries[5].collective == 4);
}

TEST_CASE_FIXTURE(Host, "recorded: a dump has no address of the program's") {
  CHECK(c.all_reduce(buffer(5), ReduceOp::sum,
                     comm::Stream(reinterpret_cast<CUstream_st*>(0x7f1234567890)))
            .ok());
  const std::string json = comm::recorder_of(c).to_json();
  CHECK(json.find("7f1234567890") == std::string::npos);
  CHECK(json.find(std::to_string(0x7f1234567890)) == std::string::npos);
}

TEST_CASE("recorded: the ring keeps the last, and counts all") {
  Host r(RecorderOptions{.entries = 64});
  for (int i = 0; i < 1000; ++i) CHECK(r.c.barrier().ok());
  const Dump d = r.dump();
  CHECK(d.submissions == 1000);
  REQUIRE(d.entries.size() == 64);
  CHECK(d.entries.front().seq == 937);
  CHECK(d.entries.back().seq == 1000);
  CHECK(d.entries.back().collective == 1000);
  for (const Entry& e : d.entries) CHECK(e.state == State::complete);
}

TEST_CASE_FIXTURE(Host, "recorded: what is under way is there, as started") {
  std::string seen;
  recording.during = [&] { seen = comm::recorder_of(c).to_json(); };
  CHECK(c.barrier().ok());
  const Dump d = tests::parsed(seen);
  REQUIRE(d.entries.size() == 1);
  CHECK(d.entries[0].state == State::started);
}

TEST_CASE_FIXTURE(Gpu, "recorded: on a stream, complete is what a wait for that stream has seen") {
  CHECK(c.all_reduce(buffer(1), ReduceOp::sum, kStream).ok());
  CHECK(c.all_reduce(buffer(1)).ok());
  CHECK(c.all_reduce(buffer(1), ReduceOp::sum, kStream).ok());
  CHECK(entries()[0].state == State::returned);
  CHECK(c.synchronize(kStream).ok());
  std::vector<Entry> now = entries();
  CHECK(now[0].state == State::complete);
  CHECK(now[1].state == State::returned);
  CHECK(now[2].state == State::complete);
  CHECK(now[3].state == State::complete);
  CHECK(c.broadcast(buffer(1), 0).ok());  // Waits for the communicator's own stream.
  CHECK(entries()[1].state == State::complete);
}

TEST_CASE_FIXTURE(Gpu, "recorded: a ticket is complete with the stream that it was joined to") {
  auto ticket = c.all_reduce_deferred(buffer(1), ReduceOp::sum, kStream);
  REQUIRE(ticket.ok());
  CHECK(c.synchronize(kStream).ok());
  CHECK(entries()[0].state == State::returned);
  CHECK(ticket->join(kStream).ok());
  CHECK(c.synchronize(kStream).ok());
  CHECK(entries()[0].state == State::complete);
}

TEST_CASE_FIXTURE(Host, "recorded: what a group submits is complete when it ends") {
  {
    auto group = c.group();
    CHECK(c.send_to(buffer(1), 2).ok());
    {
      auto inner = c.group();
      CHECK(c.recv_from(buffer(1), 2).ok());
      CHECK(inner.end().ok());
    }
    CHECK(entries()[1].state == State::returned);
    CHECK(entries()[1].in_group);
    CHECK(entries()[3].state == State::returned);
    CHECK(group.end().ok());
  }
  for (const Entry& e : entries()) CHECK(e.state == State::complete);
  CHECK(c.barrier().ok());
  CHECK_FALSE(entries().back().in_group);
}

TEST_CASE_FIXTURE(Host, "recorded: after a failure nothing pushes out what led to it") {
  CHECK(c.barrier().ok());
  recording.answer = StatusCode::peer_lost;
  recording.is_healthy = false;
  for (int i = 0; i < 5000; ++i) CHECK_FALSE(c.barrier().ok());
  Dump d = dump();
  CHECK(d.submissions == 2);
  CHECK(d.refused == 4999);
  CHECK(d.failure.seq == 2);
  CHECK(d.failure.code == StatusCode::peer_lost);
  CHECK(d.failure.message == "as prepared");
  CHECK(d.entries.back().state == State::failed);
  CHECK(d.entries.back().result == StatusCode::peer_lost);

  CHECK_FALSE(c.attempt_reconnect().ok());
  CHECK(dump().entries.back().op == Operation::attempt_reconnect);
  recording.answer = StatusCode::ok;
  recording.is_healthy = true;
  recording.epoch = 4;
  CHECK(c.attempt_reconnect().ok());
  CHECK(c.barrier().ok());
  d = dump();
  CHECK(d.failure.seq == 0);
  CHECK(d.epoch == 4);
  CHECK(d.entries.back().epoch == 4);
  CHECK(d.entries.back().collective == 1);
}

TEST_CASE_FIXTURE(Host, "recorded: an argument that is refused is no failure of the communicator") {
  recording.answer = StatusCode::invalid_argument;
  CHECK_FALSE(c.barrier().ok());
  CHECK(dump().failure.seq == 0);
  CHECK(dump().entries.back().state == State::failed);
}

TEST_CASE("recorded: the first failure is dumped by itself, once, into the folder named") {
  const std::string folder = new_folder();
  Host r(RecorderOptions{.name = "tp/0", .directory = folder});
  CHECK(r.c.barrier().ok());
  CHECK(files_in(folder).empty());
  r.recording.answer = StatusCode::timeout;
  CHECK_FALSE(r.c.barrier().ok());
  CHECK_FALSE(r.c.barrier().ok());
  const std::vector<std::string> files = files_in(folder);
  REQUIRE(files.size() == 1);
  CHECK(files[0].find("comm_trace_rank1_of_4_tp.0_epoch3_") == 0);
  auto read = comm::trace::read_dump(folder + "/" + files[0]);
  REQUIRE(read.ok());
  CHECK(read->failure.seq == 2);
  CHECK(read->name == "tp/0");
}

TEST_CASE("recorded: a sink gets the dump in place of a file") {
  std::string got;
  RecorderOptions options;
  options.directory = "/nonexistent";
  options.context = &got;
  options.sink = [](void* context, const char* json, std::size_t size) {
    static_cast<std::string*>(context)->assign(json, size);
  };
  Host r(std::move(options));
  r.recording.answer = StatusCode::internal;
  CHECK_FALSE(r.c.barrier().ok());
  CHECK(tests::parsed(got).failure.code == StatusCode::internal);
}

TEST_CASE("recorded: a dump that cannot be written says where, and what to do") {
  Host r;
  const comm::Status s = comm::recorder_of(r.c).dump_to("/nonexistent/dump.json");
  CHECK(s.code() == StatusCode::internal);
  CHECK(std::string(s.message()).find("/nonexistent/dump.json") != std::string::npos);
  ::unsetenv("COMM_RECORDER_DIR");
  const comm::Status nowhere = comm::recorder_of(r.c).dump();
  CHECK(std::string(nowhere.message()).find("COMM_RECORDER_DIR") != std::string::npos);
}

TEST_CASE("recorded: the environment is read when it is made, and refused where it is wrong") {
  tests::Changing recording;
  const auto create = [&](const char* value) {
    ::setenv("COMM_RECORDER_ENTRIES", value, 1);
    auto made = comm::Communicator<comm::Recorded<Backend>>::create({1, 4, &recording});
    ::unsetenv("COMM_RECORDER_ENTRIES");
    return made.ok() ? "ok" : std::string(made.message());
  };
  CHECK(create("256") == "ok");
  for (const char* wrong :
       {"", "0", "100", "32", "131072", "-64", "64k", "many", "99999999999999999999"})
    CHECK(create(wrong) ==
          "COMM_RECORDER_ENTRIES=" + std::string(wrong) + ": not a power of two from 64 to 65536");
}

TEST_CASE_FIXTURE(Host,
                  "recorded: what is split off has a name of its own, the same on all ranks") {
  CHECK(c.barrier().ok());
  auto half = c.split(1, 0);
  REQUIRE(half.ok());
  CHECK(half->barrier().ok());
  const Dump d = tests::dump_of(comm::recorder_of(*half));
  CHECK(d.name == "world/epoch3.split2c1");
  CHECK(d.world_size == 2);
  CHECK(d.submissions == 1);
  auto rest = c.shrink({0, 2});
  REQUIRE(rest.ok());
  CHECK(tests::dump_of(comm::recorder_of(*rest)).name == "world/epoch3.shrink-0-2");
}

TEST_CASE(
    "recorded: the recorder outlives the communicator, and a moved-from one records nothing") {
  comm::FlightRecorder recorder;
  {
    Host r;
    CHECK(r.c.barrier().ok());
    recorder = comm::recorder_of(r.c);
    auto other = std::move(r.c);
    CHECK(other.barrier().ok());
    CHECK(r.c.barrier().ok());  // NOLINT: what is left behind must bear a call.
  }
  CHECK(recorder.submissions() == 2);
  CHECK(tests::dump_of(recorder).entries.size() == 2);
}

TEST_CASE("recorded: recorder_of finds it under other decorators") {
  tests::Changing recording;
  using Stack = comm::Logged<comm::Recorded<Backend>>;
  auto c = std::move(*comm::Communicator<Stack>::create({1, 4, &recording}));
  CHECK(c.barrier().ok());
  CHECK(comm::recorder_of(c).submissions() == 1);
}
