// comm/decorator.h: the hook sees every operation, over data that moves, and may answer for it.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "comm/decorator.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "comm/backends/single_gpu.h"
#include "comm/communicator.h"
#include "comm/testing/expect.h"
#include "examples/custom_decorator/timed.h"
#include "tests/core/recording_backend.h"

using comm::DeviceSpan, comm::Operation, comm::StatusCode, comm::testing::expect_ok;

namespace {

/// The ten lines that decorator.h promises.
template <comm::Backend B>
class Counted : public comm::Decorator<Counted<B>, B> {
 public:
  using comm::Decorator<Counted, B>::Decorator;

  template <class Op, class Next>
  constexpr auto around(const Op&, Next next) {
    calls_.push_back(Op::operation);
    return next();
  }
  const std::vector<Operation>& calls() const { return calls_; }

 private:
  std::vector<Operation> calls_;
};

/// Refuses sums of more than a limit, which it hands down to what is split off; changes one
/// operation by naming it.
template <comm::Backend B>
class Limited : public comm::Decorator<Limited<B>, B> {
 public:
  Limited(B inner, std::size_t limit)
      : comm::Decorator<Limited, B>(std::move(inner)), limit_(limit) {}

  template <class Op, class Next>
  auto around(const Op& op, Next next) -> decltype(next()) {
    if (comm::info_of(op).count > limit_) {
      return comm::make_error(StatusCode::invalid_argument, 0, "%s: over the limit of %zu",
                              to_string(Op::operation), limit_);
    }
    return next();
  }

  comm::Status barrier(const comm::ops::Barrier&) {
    return comm::make_error(StatusCode::unsupported, 0, "barriers are forbidden");
  }

  Limited wrap(B inner) const { return Limited(std::move(inner), limit_); }

 private:
  std::size_t limit_;
};

/// No hook at all: everything passes.
template <comm::Backend B>
struct Named : comm::Decorator<Named<B>, B> {
  using comm::Decorator<Named, B>::Decorator;
};

using tests::RecordingBackend;
using Deep = Named<Counted<RecordingBackend>>;

static_assert(comm::Backend<Counted<RecordingBackend>> && comm::Creatable<Deep>);
static_assert(comm::Backend<Limited<RecordingBackend>>);
static_assert(comm::Backend<Limited<comm::SingleGpu>>);
static_assert(!Counted<comm::SingleGpu>::moves_data && Deep::moves_data);

struct Fixture {
  tests::Recording recording;
  RecordingBackend make() { return std::move(*RecordingBackend::create({1, 4, &recording})); }
};

/// Calls every operation of the face on 4 ranks.
template <class C>
void call_every_operation(C& c) {
  float a[8] = {}, b[8] = {};
  std::uint32_t word = 0;
  const std::size_t counts[4] = {2, 2, 2, 2};
  const DeviceSpan<float> send(a, 8), recv(b, 8);
  expect_ok(c.all_reduce(send));
  expect_ok(c.all_reduce_async(send));
  expect_ok(c.all_reduce_deferred(send));
  expect_ok(c.all_gather(send.first(2), recv));
  expect_ok(c.reduce_scatter(send, recv.first(2)));
  expect_ok(c.broadcast(send, 0));
  expect_ok(c.broadcast_async(send, 0));
  expect_ok(c.recv_command_u32(DeviceSpan(&word, 1), 0));
  expect_ok(c.reduce(send, recv, comm::ReduceOp::sum, 1));
  expect_ok(c.gather(send.first(2), recv, 1));
  expect_ok(c.scatter(send, recv.first(2), 1));
  expect_ok(c.all_to_all(send, recv));
  expect_ok(c.all_to_all_v(send, counts, recv, counts));
  expect_ok(c.send_to(send, 0));
  expect_ok(c.recv_from(recv, 0));
  expect_ok(c.send_recv(send, 0, recv, 0));
  expect_ok(c.barrier());
  expect_ok(c.barrier_wait());
  expect_ok(c.group_start());
  expect_ok(c.group_end());
  expect_ok(c.register_buffer(send));
  expect_ok(c.deregister_buffer(77));
  auto memory = c.symmetric_alloc(8);
  expect_ok(memory);
  expect_ok(c.symmetric_free(*memory));
  expect_ok(c.set_add_kernel(nullptr));
  expect_ok(c.split(0, 0));
  expect_ok(c.shrink({0}));
  expect_ok(c.synchronize());
  expect_ok(c.attempt_reconnect());
  expect_ok(c.abort());
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "decorator: the hook sees every operation once, but for abort") {
  comm::Communicator c{Counted<RecordingBackend>(make())};
  call_every_operation(c);
  std::vector<Operation> every;
  for (int i = 0; i < static_cast<int>(Operation::abort); ++i) {
    every.push_back(static_cast<Operation>(i));
  }
  CHECK(c.backend().calls() == every);
  CHECK(recording.seen.size() == every.size() + 1);
  CHECK(recording.last().info.operation == Operation::abort);
  CHECK(c.rank() == 1);
  CHECK(c.world_size() == 4);
  CHECK(c.epoch() == 3);
  recording.is_healthy = false;
  CHECK_FALSE(c.is_healthy());
}

TEST_CASE_FIXTURE(Fixture, "decorator: decorators nest, each with its own share") {
  comm::Communicator c{Deep(Counted<RecordingBackend>(make()))};
  call_every_operation(c);
  CHECK(c.backend().inner().calls().size() == static_cast<std::size_t>(Operation::abort));
}

TEST_CASE_FIXTURE(Fixture, "decorator: the hook may answer with an error of its own") {
  comm::Communicator c{Limited<RecordingBackend>(make(), 4)};
  float x[8] = {};
  expect_ok(c.all_reduce(DeviceSpan(x, 4)));
  CHECK(comm::testing::outcome(c.all_reduce(DeviceSpan(x, 5))) ==
        "invalid_argument: all_reduce: over the limit of 4");
  CHECK(c.all_reduce_deferred(DeviceSpan(x, 5)).code() == StatusCode::invalid_argument);
  CHECK(c.symmetric_alloc(5).code() == StatusCode::invalid_argument);
  CHECK(recording.seen.size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "decorator: one operation is changed by naming it") {
  comm::Communicator c{Limited<RecordingBackend>(make(), 4)};
  CHECK(c.barrier().code() == StatusCode::unsupported);
  expect_ok(c.barrier_wait());
}

TEST_CASE_FIXTURE(Fixture, "decorator: split and shrink wrap again, with settings handed down") {
  comm::Communicator c{Limited<RecordingBackend>(make(), 4)};
  float x[8] = {};
  auto half = c.split(0, 1);
  expect_ok(half);
  CHECK(half->world_size() == 2);
  CHECK(half->all_reduce(DeviceSpan(x, 5)).code() == StatusCode::invalid_argument);
  auto rest = c.shrink({0});
  expect_ok(rest);
  CHECK(rest->all_reduce(DeviceSpan(x, 5)).code() == StatusCode::invalid_argument);
  recording.answer = StatusCode::peer_lost;
  CHECK(c.split(0, 0).code() == StatusCode::peer_lost);
}

TEST_CASE_FIXTURE(Fixture, "decorator: create makes the inner backend, or says why not") {
  auto made = comm::Communicator<Deep>::create({2, 3, &recording});
  expect_ok(made);
  CHECK(made->rank() == 2);
  CHECK(comm::Communicator<Deep>::create().code() == StatusCode::rendezvous);
}

TEST_CASE("decorator: over a backend that moves no data the hook never runs") {
  auto made = comm::Communicator<Counted<comm::SingleGpu>>::create();
  float x = 1;
  expect_ok(made->all_reduce(DeviceSpan(&x, 1)));
  CHECK(made->backend().calls().empty());
}

TEST_CASE_FIXTURE(Fixture, "timed: counts calls of each operation") {
  comm::Communicator c{example::Timed<RecordingBackend>(make())};
  float x = 1;
  for (int i = 0; i < 3; ++i) expect_ok(c.all_reduce(DeviceSpan(&x, 1)));
  CHECK(c.backend().time(Operation::all_reduce).calls == 3);
  CHECK(c.backend().time(Operation::all_reduce).spent.count() >= 0);
  CHECK(c.backend().time(Operation::barrier).calls == 0);
}
