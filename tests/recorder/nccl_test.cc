// The flight recorder around Nccl, on simulated GPUs: complete is what a wait has seen, and a kernel
// that never ends is found.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "comm/decorators/recorded.h"
#include "comm/trace/analysis.h"
#include "comm/trace/reader.h"
#include "tests/nccl/world.h"

namespace {

using comm::testing::DeviceBuffer;
using comm::testing::NoReports;
using comm::testing::said;
using comm::trace::Dump;
using comm::trace::State;
using Communicator = comm::Communicator<comm::Recorded<comm::Nccl>>;

/// The dumps of `ranks` ranks, made after `body` by each.
template <class Body>
std::vector<Dump> dumps_of(int ranks, Body body) {
  std::mutex mutex;
  std::vector<Dump> dumps;
  comm::testing::on_ranks(ranks, [&](int, comm::NcclConfig config) {
    config.collective_timeout = std::chrono::milliseconds(500);
    config.close_timeout = std::chrono::milliseconds(500);
    auto made = Communicator::create(config);
    CHECK(said(made) == "ok");
    if (!made.ok()) return;
    body(*made);
    auto dump = comm::trace::parse_dump(comm::recorder_of(*made).to_json(), "dump");
    CHECK(said(dump) == "ok");
    const std::lock_guard<std::mutex> lock(mutex);
    if (dump.ok()) dumps.push_back(std::move(*dump));
  });
  return dumps;
}

}  // namespace

TEST_CASE("recorded nccl: submitted, and complete when a wait for the stream has returned") {
  const NoReports none;
  const std::vector<Dump> dumps = dumps_of(2, [](Communicator& c) {
    DeviceBuffer<float> buffer(std::vector<float>(20'000, 1.0F));
    CHECK(said(c.all_reduce(buffer.span())) == "ok");
    auto before = comm::trace::parse_dump(comm::recorder_of(c).to_json(), "dump");
    CHECK((before.ok() && before->entries[0].state == State::returned));
    CHECK(said(c.synchronize()) == "ok");
    auto ticket = c.all_reduce_deferred(buffer.span());
    CHECK(said(ticket) == "ok");
    if (ticket.ok()) CHECK(said(ticket->join({})) == "ok");
    CHECK(said(c.barrier_wait()) == "ok");
  });
  REQUIRE(dumps.size() == 2);
  for (const Dump& dump : dumps) {
    REQUIRE(dump.entries.size() == 4);
    for (const comm::trace::Entry& entry : dump.entries) CHECK(entry.state == State::complete);
    CHECK(dump.collectives == 3);
  }
}

TEST_CASE("recorded nccl: a kernel that never ends is found by the ranks' dumps") {
  const NoReports none;
  const std::vector<Dump> dumps = dumps_of(2, [](Communicator& c) {
    DeviceBuffer<float> buffer(std::vector<float>(20'000, 1.0F));
    CHECK(said(c.all_reduce(buffer.span())) == "ok");
    CHECK(said(c.synchronize()) == "ok");
    if (c.rank() == 1)
      comm::simulated::inject({.call = "ncclAllReduce",
                               .nth = 1,
                               .rank = 1,
                               .action = comm::simulated::FaultAction::never_finish});
    CHECK(said(c.all_reduce(buffer.span(), comm::ReduceOp::max)) == "ok");
    CHECK(said(c.synchronize()) != "ok");
    CHECK(said(c.abort()) == "ok");
    CHECK(cudaStreamSynchronize(c.backend().inner().stream()) == cudaSuccess);
  });
  const auto worlds = comm::trace::sort_into_worlds(dumps);
  REQUIRE(worlds.size() == 1);
  const comm::trace::View view(worlds[0], 1'000'000'000);
  const comm::trace::Report report = comm::trace::analyse(view);
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].sentence ==
        "all 2 ranks submitted collective 2 of epoch 0, all_reduce (f32 x 20000, max), and none "
        "completed it");
}
