#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "comm/backends/nccl.h"
#include "comm/communicator.h"
#include "comm/float_types.h"
#include "tests/gpu/device_buffer.h"

// Every operation over one rank: on a GPU with NCCL itself, elsewhere with both simulated.

namespace {

using comm::Communicator;
using comm::Nccl;
using comm::NcclMode;
using comm::ReduceOp;
using comm::testing::check;
using comm::testing::GpuBuffer;

Communicator<Nccl> one_rank(NcclMode mode) {
  comm::NcclConfig config;
  config.launch = comm::LaunchConfig::local(0, 1, 0);
  config.mode = mode;
  auto made = Communicator<Nccl>::create(config);
  REQUIRE_MESSAGE(made.ok(), made.message());
  return std::move(*made);
}

constexpr std::size_t kCount = 1001;

/// `operation(c, send, recv)` leaves in `recv` what is in `send`.
template <class Operation>
void copies(Communicator<Nccl>& c, const char* name, Operation operation) {
  const GpuBuffer<float> send(std::vector<float>(kCount, 3.0F));
  const GpuBuffer<float> recv(std::vector<float>(kCount, 0.0F));
  check(operation(c, send.span(), recv.span()));
  check(c.synchronize());
  CHECK_MESSAGE(recv.read() == std::vector<float>(kCount, 3.0F), name);
}

}  // namespace

TEST_CASE("gpu: one rank, every operation") {
  for (const NcclMode mode : {NcclMode::blocking, NcclMode::non_blocking}) {
    Communicator<Nccl> c = one_rank(mode);
    copies(c, "all_reduce", [](auto& c, auto s, auto r) { return c.all_reduce(s, r); });
    copies(c, "all_gather", [](auto& c, auto s, auto r) { return c.all_gather(s, r); });
    copies(c, "reduce_scatter", [](auto& c, auto s, auto r) { return c.reduce_scatter(s, r); });
    copies(c, "reduce", [](auto& c, auto s, auto r) { return c.reduce(s, r, ReduceOp::max, 0); });
    copies(c, "gather", [](auto& c, auto s, auto r) { return c.gather(s, r, 0); });
    copies(c, "scatter", [](auto& c, auto s, auto r) { return c.scatter(s, r, 0); });
    copies(c, "all_to_all", [](auto& c, auto s, auto r) { return c.all_to_all(s, r); });
    copies(c, "send_recv", [](auto& c, auto s, auto r) { return c.send_recv(s, 0, r, 0); });
    copies(c, "all_to_all_v", [](auto& c, auto s, auto r) {
      const std::size_t counts[] = {kCount};
      return c.all_to_all_v(s, counts, r, counts);
    });
    copies(c, "messages in a group", [](auto& c, auto s, auto r) {
      auto group = c.group();
      check(c.send_to(s, 0));
      check(c.recv_from(r, 0));
      return group.end();
    });
    const GpuBuffer<float> buffer(std::vector<float>(kCount, 1.5F));
    check(c.broadcast(buffer.span(), 0));
    check(c.broadcast_async(buffer.span(), 0));
    check(c.all_reduce_async(buffer.span()));
    auto ticket = c.all_reduce_deferred(buffer.span(), ReduceOp::avg);
    check(ticket);
    if (ticket.ok()) check(ticket->join({}));
    check(c.all_reduce(buffer.span(), ReduceOp::premul_sum(2.0)));
    check(c.barrier());
    check(c.barrier_wait());
    CHECK(buffer.read() == std::vector<float>(kCount, 3.0F));
    CHECK(c.is_healthy());
    check(c.backend().close());
  }
}

TEST_CASE("gpu: one rank, registration, windows and a split") {
  Communicator<Nccl> c = one_rank(NcclMode::blocking);
  const GpuBuffer<float> buffer(std::vector<float>(1 << 20, 2.0F));
  {
    auto registered = c.registered(buffer.span());
    check(registered);
    check(c.all_reduce(buffer.span(), ReduceOp::sum));
    check(c.synchronize());
  }
  {
    auto symmetric = c.symmetric_buffer<float>(1 << 20);
    check(symmetric);
    if (symmetric.ok()) {
      REQUIRE(cudaMemcpy(symmetric->span().data(), buffer.get(), sizeof(float) << 20,
                         cudaMemcpyDefault) == cudaSuccess);
      REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
      check(c.all_reduce(symmetric->span(), ReduceOp::max));
    }
    check(c.synchronize());
  }
  {
    auto part = c.split(0, 0);
    check(part);
    if (part.ok()) check(part->all_reduce(buffer.span(), ReduceOp::max));
    if (part.ok()) check(part->synchronize());
  }
  CHECK(buffer.read()[1000] == 2.0F);
  check(c.backend().close());
}

TEST_CASE("gpu: one rank, a graph is captured and replayed") {
  Communicator<Nccl> c = one_rank(NcclMode::blocking);
  const GpuBuffer<float> buffer(std::vector<float>(kCount, 3.0F));
  const GpuBuffer<float> copy(std::vector<float>(kCount, 0.0F));
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  check(c.all_reduce(buffer.span(), ReduceOp::premul_sum(2.0), comm::Stream(stream)));
  check(c.all_reduce_async(buffer.span(), ReduceOp::sum, comm::Stream(stream)));
  check(c.all_gather(buffer.span(), copy.span(), comm::Stream(stream)));
  CHECK_FALSE(c.broadcast(buffer.span(), 0, comm::Stream(stream)).ok());
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
  for (int i = 0; i < 2; ++i) REQUIRE(cudaGraphLaunch(executable, stream) == cudaSuccess);
  check(c.synchronize(comm::Stream(stream)));
  CHECK(copy.read() == std::vector<float>(kCount, 12.0F));
  CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  check(c.backend().close());
}
