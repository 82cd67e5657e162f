// What Communicator tells its backend, where it says the result is, and its guards.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "comm/communicator.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

#include "comm/testing/expect.h"
#include "tests/core/recording_backend.h"

using comm::DataType, comm::DeviceSpan, comm::Operation, comm::ReduceOp, comm::StatusCode;
using comm::testing::expect_ok;

namespace {

using Communicator = comm::Communicator<tests::RecordingBackend>;

struct Fixture {
  tests::Recording recording;
  Communicator c = std::move(*Communicator::create({1, 4, &recording}));
  float memory[64] = {};
  float other[64] = {};
  DeviceSpan<float> send(std::size_t count) { return {memory, count}; }
  DeviceSpan<float> recv(std::size_t count) { return {other, count}; }

  void saw(Operation operation, DataType type, std::size_t count, int root = -1, int peer = -1) {
    const comm::OperationInfo& info = recording.last().info;
    CHECK(std::string(to_string(info.operation)) == to_string(operation));
    CHECK(std::string(to_string(info.type)) == to_string(type));
    CHECK(info.count == count);
    CHECK(info.root == root);
    CHECK(info.peer == peer);
  }
};

CUstream_st* const kStream = reinterpret_cast<CUstream_st*>(0x40);

}  // namespace

static_assert(!std::is_copy_constructible_v<Communicator>);
static_assert(std::is_nothrow_move_constructible_v<Communicator>);

TEST_CASE_FIXTURE(Fixture, "communicator: create hands on the configuration and the error") {
  CHECK(c.rank() == 1);
  CHECK(c.world_size() == 4);
  CHECK(c.epoch() == 3);
  CHECK(c.is_healthy());
  recording.is_healthy = false;
  CHECK_FALSE(c.is_healthy());
  CHECK(Communicator::create().code() == StatusCode::rendezvous);
}

TEST_CASE_FIXTURE(Fixture, "communicator: reductions carry type, count, operation and stream") {
  expect_ok(c.all_reduce(send(5), ReduceOp::premul_sum(0.5), kStream));
  saw(Operation::all_reduce, DataType::f32, 5);
  CHECK(recording.last().info.op == ReduceOp::premul_sum(0.5));
  CHECK(recording.last().info.stream == comm::Stream(kStream));
  CHECK(recording.last().send == memory);
  CHECK(recording.last().recv == memory);
  expect_ok(c.all_reduce(send(5)));
  CHECK(recording.last().info.op == ReduceOp::sum);
  CHECK_FALSE(recording.last().info.stream.is_given());
  expect_ok(c.all_reduce(send(5), recv(5), ReduceOp::max));
  CHECK(recording.last().recv == other);
  expect_ok(c.all_reduce_async(send(5), ReduceOp::min, kStream));
  saw(Operation::all_reduce_async, DataType::f32, 5);
  expect_ok(c.all_reduce_deferred(send(6)));
  saw(Operation::all_reduce_deferred, DataType::f32, 6);
  expect_ok(c.reduce_scatter(send(20), recv(5)));
  saw(Operation::reduce_scatter, DataType::f32, 5);
  expect_ok(c.reduce(send(5), recv(5), ReduceOp::prod, 2));
  saw(Operation::reduce, DataType::f32, 5, 2);
}

TEST_CASE_FIXTURE(Fixture, "communicator: moves carry elements, or bytes where there are none") {
  struct Triple {
    std::int32_t a, b, c;
  };
  Triple triples[4] = {};
  std::byte bytes[9] = {};
  expect_ok(c.all_gather(send(3), recv(12), kStream));
  saw(Operation::all_gather, DataType::f32, 3);
  CHECK(recording.last().info.stream == comm::Stream(kStream));
  expect_ok(c.broadcast(DeviceSpan(triples, 4), 3));
  saw(Operation::broadcast, DataType::u8, 48, 3);
  expect_ok(c.broadcast_async(DeviceSpan(bytes, 9), 0));
  saw(Operation::broadcast_async, DataType::u8, 9, 0);
  expect_ok(c.gather(send(3), recv(12), 1));
  saw(Operation::gather, DataType::f32, 3, 1);
  expect_ok(c.scatter(send(12), recv(3), 1));
  saw(Operation::scatter, DataType::f32, 3, 1);
  expect_ok(c.all_to_all(send(12), recv(12)));
  saw(Operation::all_to_all, DataType::f32, 3);
  Triple others[4] = {};
  expect_ok(c.all_to_all(DeviceSpan(triples, 4), DeviceSpan(others, 4)));
  saw(Operation::all_to_all, DataType::u8, 12);
  expect_ok(c.send_to(send(3), 2));
  saw(Operation::send_to, DataType::f32, 3, -1, 2);
  expect_ok(c.recv_from(recv(3), 0));
  saw(Operation::recv_from, DataType::f32, 3, -1, 0);
  expect_ok(c.send_recv(send(3), 2, recv(7), 0));
  saw(Operation::send_recv, DataType::f32, 3, -1, 2);
  CHECK(recording.last().recv_count == 7);
  CHECK(recording.last().source == 0);
}

TEST_CASE_FIXTURE(Fixture,
                  "communicator: the result is recv, on the root alone where there is one") {
  CHECK(c.all_gather(send(3), recv(12))->data() == other);
  CHECK(c.reduce_scatter(send(12), recv(3))->size() == 3);
  CHECK(c.reduce(send(3), recv(3), ReduceOp::sum, 1)->data() == other);
  CHECK(c.reduce(send(3), recv(3), ReduceOp::sum, 0)->empty());
  CHECK(c.gather(send(3), recv(12), 0)->empty());
  CHECK(c.scatter(send(12), recv(3), 0)->data() == other);
  CHECK(c.send_recv(send(3), 2, recv(7), 0)->size() == 7);
  static_assert(std::is_same_v<decltype(c.all_gather(DeviceSpan<const float>(), recv(0))),
                               comm::Result<DeviceSpan<const float>>>);
}

TEST_CASE_FIXTURE(Fixture, "communicator: a backend's error comes back as it is") {
  recording.answer = StatusCode::peer_lost;
  for (const std::string& outcome :
       {comm::testing::outcome(c.all_reduce(send(3))),
        comm::testing::outcome(c.all_gather(send(3), recv(12))),
        comm::testing::outcome(c.gather(send(3), recv(12), 0)),
        comm::testing::outcome(c.all_reduce_deferred(send(3))),
        comm::testing::outcome(c.split(0, 0)), comm::testing::outcome(c.shrink({0})),
        comm::testing::outcome(c.registered(send(3))),
        comm::testing::outcome(c.symmetric_buffer<float>(3)),
        comm::testing::outcome(c.barrier())}) {
    CHECK(outcome == "peer_lost: as prepared");
  }
}

TEST_CASE_FIXTURE(Fixture, "communicator: deadlines, kernels and the rest are handed on") {
  expect_ok(c.barrier_wait(std::chrono::seconds(2)));
  CHECK(recording.last().timeout.nanoseconds_or(0) == 2'000'000'000);
  expect_ok(c.synchronize(kStream, comm::Timeout::never()));
  CHECK(recording.last().timeout.is_never());
  expect_ok(c.set_add_kernel(nullptr));
  expect_ok(c.attempt_reconnect());
  expect_ok(c.abort());
  CHECK(recording.last().info.operation == Operation::abort);
}

TEST_CASE_FIXTURE(Fixture, "communicator: split and shrink give communicators") {
  auto half = c.split(7, 1);
  CHECK(recording.last().color == 7);
  CHECK(half->rank() == 1);
  CHECK(half->world_size() == 2);
  auto rest = c.shrink({3, 0});
  CHECK(recording.last().excluded == std::vector<int>{3, 0});
  CHECK(rest->world_size() == 3);
}

TEST_CASE_FIXTURE(Fixture, "group: the guard ends what it started, once") {
  {
    comm::Group group = c.group();
    expect_ok(group.status());
    CHECK(recording.last().info.operation == Operation::group_start);
    expect_ok(group.end());
    CHECK(recording.last().info.operation == Operation::group_end);
    expect_ok(group.end());
  }
  CHECK(recording.seen.size() == 2);
  { comm::Group group = c.group(); }
  CHECK(recording.seen.size() == 4);
  CHECK(recording.last().info.operation == Operation::group_end);
}

TEST_CASE_FIXTURE(Fixture, "group: one that could not be opened is not closed, and end says why") {
  recording.answer = StatusCode::unhealthy;
  comm::Group group = c.group();
  CHECK(group.status().code() == StatusCode::unhealthy);
  CHECK(group.end().code() == StatusCode::unhealthy);
  CHECK(recording.seen.size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "group: end reports its own error") {
  comm::Group group = c.group();
  recording.answer = StatusCode::nccl;
  CHECK(group.end().code() == StatusCode::nccl);
}

TEST_CASE_FIXTURE(Fixture, "registration: the guard deregisters its handle, once") {
  {
    auto made = c.registered(send(8));
    CHECK(recording.last().info.count == 32);
    comm::Registration registration = std::move(*made);
    CHECK(registration.handle() == 77);
    CHECK(made->handle() == 0);
    expect_ok(registration.release());
    CHECK(recording.last().info.operation == Operation::deregister_buffer);
    CHECK(recording.last().handle == 77);
    expect_ok(registration.release());
  }
  CHECK(recording.seen.size() == 2);
  { auto made = c.registered(send(8)); }
  CHECK(recording.last().handle == 77);
  CHECK(recording.seen.size() == 4);
}

TEST_CASE_FIXTURE(Fixture, "symmetric buffer: the guard frees its memory, once") {
  {
    auto made = c.symmetric_buffer<double>(4);
    CHECK(recording.last().info.count == 32);
    comm::SymmetricBuffer buffer = std::move(*made);
    CHECK(buffer.size() == 4);
    const void* memory_of_it = buffer.data();
    buffer = std::move(*c.symmetric_buffer<double>(2));
    CHECK(recording.last().info.operation == Operation::symmetric_free);
    CHECK(recording.last().send == memory_of_it);
  }
  CHECK(recording.seen.size() == 4);
}
