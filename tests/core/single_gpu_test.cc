// SingleGpu: rank 0 of 1, every operation ok, nothing touched, all of it in constant expressions.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "comm/backends/single_gpu.h"

#include <doctest/doctest.h>

#include <array>

#include "comm/communicator.h"
#include "comm/decorators/logged.h"
#include "comm/testing/expect.h"

using comm::DeviceSpan, comm::ReduceOp, comm::StatusCode, comm::Stream;

namespace {

/// Calls every operation; the index of the first that went wrong, 0 if none did.
template <class Communicator>
constexpr int first_wrong() {
  auto made = Communicator::create();
  if (!made.ok()) return 1;
  Communicator c = std::move(*made);
  std::array<float, 4> a{1, 2, 3, 4}, b{5, 6, 7, 8};
  std::array<std::uint32_t, 1> word{9};
  const DeviceSpan<float> send(a.data(), 4), recv(b.data(), 4);
  const std::size_t counts[1] = {4};

  if (c.rank() != 0 || c.world_size() != 1 || c.epoch() != 0 || !c.is_healthy()) return 2;
  if (!c.all_reduce(send).ok()) return 3;
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg}) {
    if (!c.all_reduce(send, op).ok()) return 4;
  }
  auto is_send = [&](const comm::Result<DeviceSpan<float>>& r) {
    return r.ok() && r->data() == send.data() && r->size() == send.size();
  };
  if (!is_send(c.all_reduce(send, recv))) return 5;
  if (!c.all_reduce_async(send).ok()) return 6;
  auto ticket = c.all_reduce_deferred(send);
  if (!ticket.ok() || !ticket->join(Stream()).ok()) return 7;
  if (!is_send(c.all_gather(send, recv))) return 8;
  if (!is_send(c.reduce_scatter(send, recv))) return 9;
  if (!c.broadcast(send, 0).ok() || !c.broadcast_async(send, 0).ok()) return 10;
  if (c.recv_command_u32(DeviceSpan(word.data(), 1), 0).code() != StatusCode::invalid_argument)
    return 11;
  if (!is_send(c.reduce(send, recv, ReduceOp::sum, 0))) return 12;
  if (!is_send(c.gather(send, recv, 0)) || !is_send(c.scatter(send, recv, 0))) return 13;
  if (!is_send(c.all_to_all(send, recv))) return 14;
  if (!is_send(c.all_to_all_v(send, counts, recv, counts))) return 15;
  if (!c.send_to(send, 0).ok() || !c.recv_from(recv, 0).ok()) return 16;
  if (!is_send(c.send_recv(send, 0, recv, 0))) return 17;
  if (!c.barrier().ok() || !c.barrier_wait().ok()) return 18;
  if (!c.group_start().ok() || !c.group_end().ok()) return 19;
  {
    comm::Group group = c.group();
    if (!group.status().ok() || !group.end().ok()) return 20;
  }
  auto handle = c.register_buffer(send);
  if (!handle.ok() || *handle != 0 || !c.deregister_buffer(*handle).ok()) return 21;
  auto guard = c.registered(send);
  if (!guard.ok() || guard->handle() != 0) return 22;
  if (c.symmetric_alloc(64).code() != StatusCode::unsupported) return 23;
  if (c.template symmetric_buffer<float>(4).code() != StatusCode::unsupported) return 24;
  if (c.symmetric_free(nullptr).code() != StatusCode::unsupported) return 25;
  if (!c.set_add_kernel(nullptr).ok()) return 26;
  auto part = c.split(0, 0);
  if (!part.ok() || part->rank() != 0 || part->world_size() != 1) return 27;
  if (!c.shrink({1}).ok() || !c.synchronize().ok()) return 28;
  if (!c.attempt_reconnect().ok() || !c.abort().ok() || !c.is_healthy()) return 29;
  if (c.all_reduce(send, ReduceOp::premul_sum(2)).code() != StatusCode::unsupported) return 30;
  if (a != std::array<float, 4>{1, 2, 3, 4} || b != std::array<float, 4>{5, 6, 7, 8}) return 31;
  return word[0] == 9 ? 0 : 32;
}

using Plain = comm::Communicator<comm::SingleGpu>;
using Logged = comm::Communicator<comm::Logged<comm::SingleGpu>>;
using LoggedTwice = comm::Communicator<comm::Logged<comm::Logged<comm::SingleGpu>>>;

static_assert(first_wrong<Plain>() == 0);
static_assert(first_wrong<Logged>() == 0);
static_assert(first_wrong<LoggedTwice>() == 0);

static_assert(sizeof(Plain) == 1 && std::is_empty_v<Plain>);
static_assert(sizeof(Logged) == 1 && sizeof(LoggedTwice) == 1);
static_assert(std::is_empty_v<comm::Group<comm::SingleGpu>>);
static_assert(!Plain::BackendType::moves_data && !Logged::BackendType::moves_data);

}  // namespace

TEST_CASE_TEMPLATE("single_gpu: every operation is ok at run time too", C, Plain, Logged,
                   LoggedTwice) {
  CHECK(first_wrong<C>() == 0);
}

TEST_CASE("single_gpu: arguments are not looked at") {
  Plain c{comm::SingleGpu()};
  comm::testing::expect_ok(c.broadcast(DeviceSpan<int>(nullptr, 5), 17));
  comm::testing::expect_ok(c.send_to(DeviceSpan<int>(nullptr, 5), -3));
}

TEST_CASE("single_gpu: what is refused says what to do instead") {
  Plain c{comm::SingleGpu()};
  std::uint32_t word = 0;
  comm::testing::expect_part(c.recv_command_u32(DeviceSpan(&word, 1), 0).message(),
                             "call broadcast on the root");
  comm::testing::expect_part(c.symmetric_alloc(8).message(), "allocate an ordinary buffer");
  float x = 1;
  comm::testing::expect_part(c.all_reduce(DeviceSpan(&x, 1), ReduceOp::premul_sum(2)).message(),
                             "scale the buffer");
}
