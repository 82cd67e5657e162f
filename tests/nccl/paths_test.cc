#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "comm/float_types.h"
#include "tests/nccl/world.h"

namespace {

using comm::bf16;
using comm::Communicator;
using comm::Nccl;
using comm::NcclConfig;
using comm::ReduceOp;
using comm::testing::DeviceBuffer;
using comm::testing::NoReports;
using comm::testing::run_nccl;
using comm::testing::said;

template <class T>
std::vector<T> pattern(int rank, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = T(static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 13) % 101) - 50.0F);
  return values;
}

template <class T>
std::vector<T> rank_sum(int world, std::size_t count) {
  std::vector<float> sums(count, 0.0F);
  for (int r = 0; r < world; ++r) {
    const std::vector<T> part = pattern<T>(r, count);
    for (std::size_t i = 0; i < count; ++i) sums[i] += static_cast<float>(part[i]);
  }
  std::vector<T> rounded(count);
  for (std::size_t i = 0; i < count; ++i) rounded[i] = T(sums[i]);
  return rounded;
}

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

class Stream {
 public:
  Stream() { CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { (void)cudaStreamDestroy(stream_); }
  operator comm::Stream() const { return comm::Stream(stream_); }  // NOLINT
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace

TEST_CASE_TEMPLATE("small sums: one element below, at and above the limit are all right", T, bf16,
                   float) {
  const NoReports none;
  for (int world : {2, 3, 4, 8}) {
    const std::size_t limit = (world == 2 ? 64U << 10 : 4U << 10) / sizeof(T);
    run_nccl(world, [&](Communicator<Nccl>& c) {
      for (std::size_t count : {std::size_t{1}, std::size_t{7}, limit - 1, limit, limit + 1}) {
        DeviceBuffer<T> buffer(pattern<T>(c.rank(), count));
        DeviceBuffer<T> out(std::vector<T>(count, T(0.0F)));
        CHECK(said(c.all_reduce(buffer.span(), out.span())) == "ok");
        CHECK(said(c.all_reduce(buffer.span())) == "ok");
        CHECK(said(c.synchronize()) == "ok");
        CHECK(same(buffer.read(), rank_sum<T>(c.world_size(), count)));
        CHECK(same(out.read(), buffer.read()));
      }
    });
  }
}

TEST_CASE("small sums: 256 and seven ones are 264 in bf16, since they are added in float") {
  const NoReports none;
  run_nccl(8, [](Communicator<Nccl>& c) {
    DeviceBuffer<bf16> buffer({bf16(c.rank() == 0 ? 256.0F : 1.0F)});
    CHECK(said(c.all_reduce(buffer.span())) == "ok");
    CHECK(said(c.synchronize()) == "ok");
    CHECK(static_cast<float>(buffer.read()[0]) == 264.0F);
  });
}

TEST_CASE("small sums: pointers aligned to two bytes only, odd counts") {
  const NoReports none;
  for (int world : {2, 3}) {
    run_nccl(world, [](Communicator<Nccl>& c) {
      for (std::size_t offset = 1; offset < 8; ++offset) {
        for (std::size_t count : {1, 3, 7, 9, 255, 257}) {
          std::vector<bf16> values(offset, bf16(1.0F));
          for (bf16 v : pattern<bf16>(c.rank(), count)) values.push_back(v);
          values.push_back(bf16(3.0F));
          DeviceBuffer<bf16> buffer(values);
          CHECK(said(c.all_reduce(buffer.span().subspan(offset, count))) == "ok");
          CHECK(said(c.synchronize()) == "ok");
          const std::vector<bf16> got = buffer.read();
          const auto begin = got.begin() + static_cast<std::ptrdiff_t>(offset);
          CHECK(same(std::vector<bf16>(begin, begin + static_cast<std::ptrdiff_t>(count)),
                     rank_sum<bf16>(c.world_size(), count)));
          CHECK(static_cast<float>(got.back()) == 3.0F);
        }
      }
    });
  }
}

TEST_CASE("small sums on two streams take turns with the receive buffer") {
  const NoReports none;
  for (int world : {2, 3}) {
    run_nccl(world, [](Communicator<Nccl>& c) {
      const Stream one;
      const Stream two;
      constexpr std::size_t kCount = 1000;
      std::vector<std::unique_ptr<DeviceBuffer<bf16>>> buffers;
      for (int i = 0; i < 16; ++i) {
        buffers.push_back(std::make_unique<DeviceBuffer<bf16>>(pattern<bf16>(c.rank(), kCount)));
        const comm::Stream stream = i % 2 == 0 ? one : two;
        CHECK(said(c.all_reduce(buffers.back()->span(), ReduceOp::sum, stream)) == "ok");
      }
      CHECK(said(c.synchronize(one)) == "ok");
      CHECK(said(c.synchronize(two)) == "ok");
      for (const auto& buffer : buffers)
        CHECK(same(buffer->read(), rank_sum<bf16>(c.world_size(), kCount)));
    });
  }
}

TEST_CASE("traps 27, 28: pre-multiplied sums and averages, by type") {
  const NoReports none;
  run_nccl(2, [](Communicator<Nccl>& c) {
    DeviceBuffer<float> scaled({2.0F + static_cast<float>(c.rank())});
    CHECK(said(c.all_reduce(scaled.span(), ReduceOp::premul_sum(0.5))) == "ok");
    DeviceBuffer<bf16> half({bf16(8.0F)});
    CHECK(said(c.all_reduce(half.span(), ReduceOp::premul_sum(0.25))) == "ok");
    DeviceBuffer<int> average({c.rank() == 0 ? 1 : 4});
    CHECK(said(c.all_reduce(average.span(), ReduceOp::avg)) == "ok");
    CHECK(said(c.synchronize()) == "ok");
    CHECK(scaled.read()[0] == 2.5F);
    CHECK(static_cast<float>(half.read()[0]) == 4.0F);
    CHECK(average.read()[0] == 2);
  });
}

TEST_CASE("trap 33: operations are captured and replayed, waits are refused by name") {
  const NoReports none;
  for (int world : {2, 3}) {
    run_nccl(world, [](Communicator<Nccl>& c) {
      const Stream stream;
      DeviceBuffer<float> small(std::vector<float>(100, 1.0F));
      DeviceBuffer<float> large(std::vector<float>(50'000, 1.0F));
      CHECK(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal) == cudaSuccess);
      CHECK(said(c.all_reduce(small.span(), ReduceOp::sum, stream)) == "ok");
      CHECK(said(c.all_reduce(large.span(), ReduceOp::sum, stream)) == "ok");
      CHECK(said(c.all_reduce_async(small.span(), ReduceOp::sum, stream)) == "ok");
      CHECK(said(c.barrier(stream)) == "ok");
      CHECK(c.is_healthy());
      const std::string refused = said(c.broadcast(small.span(), 0, stream));
      CHECK(refused.find("captured") != std::string::npos);
      CHECK(c.synchronize(stream).code() == comm::StatusCode::invalid_argument);
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t executable = nullptr;
      CHECK(cudaStreamEndCapture(stream.get(), &graph) == cudaSuccess);
      CHECK(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
      for (int i = 0; i < 2; ++i) CHECK(cudaGraphLaunch(executable, stream.get()) == cudaSuccess);
      CHECK(said(c.synchronize(stream)) == "ok");
      const auto n = static_cast<float>(c.world_size());
      CHECK(small.read() == std::vector<float>(100, n * n * n * n));
      CHECK(large.read() == std::vector<float>(50'000, n * n));
      CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);
      CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    });
  }
}
