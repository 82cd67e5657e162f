#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <cstdio>
#include <random>
#include <vector>

#include "comm/backends/nccl.h"
#include "comm/communicator.h"
#include "comm/float_types.h"
#include "comm/kernels/sum.h"

// What only a GPU can show: the kernels' arithmetic and bandwidth, and real NCCL on one rank.

namespace {

using comm::bf16;
using comm::Communicator;
using comm::DeviceSpan;
using comm::Nccl;
using comm::ReduceOp;

template <class T>
class Buffer {
 public:
  explicit Buffer(const std::vector<T>& values) : count_(values.size()) {
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&data_), count_ * sizeof(T)) == cudaSuccess);
    REQUIRE(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyDefault) == cudaSuccess);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { (void)cudaFree(data_); }
  T* get() const { return data_; }
  DeviceSpan<T> span() const { return {data_, count_}; }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    REQUIRE(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDefault) == cudaSuccess);
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

std::vector<bf16> random_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(-100.0F, 100.0F);
  std::vector<bf16> values(count);
  for (bf16& v : values) v = bf16(value(random));
  return values;
}

Communicator<Nccl> one_rank() {
  comm::NcclConfig config;
  config.launch = comm::LaunchConfig::local(0, 1, 0);
  auto made = Communicator<Nccl>::create(config);
  REQUIRE_MESSAGE(made.ok(), made.message());
  return std::move(*made);
}

template <class S>
void check(const S& s) {
  CHECK_MESSAGE(s.ok(), s.message());
}

}  // namespace

TEST_CASE("bf16_add_inplace: each sum is that of doubles, rounded once; any offset and count") {
  for (std::size_t offset : {0, 1, 3, 8}) {
    for (std::size_t count : {1, 7, 8, 9, 4095, 4097, 1 << 20}) {
      const std::vector<bf16> a = random_values(count + offset, 1);
      const std::vector<bf16> b = random_values(count + offset, 2);
      Buffer<bf16> sum(a);
      const Buffer<bf16> addend(b);
      check(comm::kernels::bf16_add_inplace(sum.get() + offset, addend.get() + offset, count,
                                            comm::Stream(cudaStream_t{})));
      const std::vector<bf16> got = sum.read();
      bool right = true;
      for (std::size_t i = offset; i < count + offset; ++i) {
        const double exact = static_cast<double>(float(a[i])) + static_cast<double>(float(b[i]));
        right = right && got[i].bits == bf16(static_cast<float>(exact)).bits;
      }
      CHECK_MESSAGE(right, "offset " << offset << ", count " << count);
    }
  }
}

TEST_CASE("bf16_add_rank_sum: rank order, in float, rounded once") {
  constexpr std::size_t kCount = 10'001;
  constexpr std::size_t kStride = 10'008;
  constexpr int kWorld = 8;
  const std::vector<bf16> all = random_values(kStride * kWorld, 3);
  const Buffer<bf16> received(all);
  for (int rank = 0; rank < kWorld; ++rank) {
    const auto own_at = all.begin() + static_cast<std::ptrdiff_t>(kStride) * rank;
    Buffer<bf16> own(std::vector<bf16>(own_at, own_at + kCount));
    check(comm::kernels::bf16_add_rank_sum(
        {own.get(), own.get(), received.get(), kStride, rank, kWorld, kCount},
        comm::Stream(cudaStream_t{})));
    const std::vector<bf16> got = own.read();
    bool right = true;
    for (std::size_t i = 0; i < kCount; ++i) {
      float sum = all[i];
      for (std::size_t r = 1; r < kWorld; ++r) sum += float(all[r * kStride + i]);
      right = right && got[i].bits == bf16(sum).bits;
    }
    CHECK_MESSAGE(right, "rank " << rank);
  }
}

TEST_CASE("bf16_add_inplace: bandwidth beside that of a copy") {
  constexpr std::size_t kCount = std::size_t{1} << 28;
  Buffer<bf16> a(std::vector<bf16>(kCount, bf16(1.0F)));
  const Buffer<bf16> b(std::vector<bf16>(kCount, bf16(1.0F)));
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  REQUIRE(cudaEventCreate(&begin) == cudaSuccess);
  REQUIRE(cudaEventCreate(&end) == cudaSuccess);
  const auto rate = [&](double bytes, auto work) {
    for (int i = 0; i < 3; ++i) work();
    REQUIRE(cudaEventRecord(begin, nullptr) == cudaSuccess);
    for (int i = 0; i < 10; ++i) work();
    REQUIRE(cudaEventRecord(end, nullptr) == cudaSuccess);
    REQUIRE(cudaEventSynchronize(end) == cudaSuccess);
    float ms = 0;
    REQUIRE(cudaEventElapsedTime(&ms, begin, end) == cudaSuccess);
    return 10 * bytes / ms / 1e6;
  };
  const double copy = rate(2.0 * kCount * 2, [&] {
    (void)cudaMemcpyAsync(a.get(), b.get(), kCount * 2, cudaMemcpyDeviceToDevice, nullptr);
  });
  const double add = rate(3.0 * kCount * 2, [&] {
    comm::kernels::bf16_add_inplace(a.get(), b.get(), kCount, comm::Stream(cudaStream_t{}))
        .ignore();
  });
  std::printf("copy %.0f GB/s, bf16_add_inplace %.0f GB/s (%.0f %%)\n", copy, add,
              100 * add / copy);
  CHECK(add >= 0.9 * copy);
  (void)cudaEventDestroy(begin);
  (void)cudaEventDestroy(end);
}

TEST_CASE("one rank of real NCCL: operations, registration, windows, groups, a graph") {
  Communicator<Nccl> c = one_rank();
  Buffer<float> send(std::vector<float>(1000, 3.0F));
  Buffer<float> recv(std::vector<float>(1000, 0.0F));
  check(c.all_reduce(send.span()));
  check(c.all_reduce(send.span(), recv.span()));
  check(c.all_gather(send.span(), recv.span()));
  check(c.reduce_scatter(send.span(), recv.span()));
  check(c.all_to_all(send.span(), recv.span()));
  check(c.gather(send.span(), recv.span(), 0));
  check(c.scatter(send.span(), recv.span(), 0));
  check(c.send_recv(send.span(), 0, recv.span(), 0));
  check(c.broadcast(recv.span(), 0));
  CHECK(recv.read() == std::vector<float>(1000, 3.0F));
  check(c.all_reduce(recv.span(), ReduceOp::premul_sum(2.0)));
  check(c.all_reduce_async(recv.span()));
  check(c.barrier_wait());
  CHECK(recv.read() == std::vector<float>(1000, 6.0F));
  check(c.registered(send.span()));
  {
    auto symmetric = c.symmetric_buffer<float>(1 << 20);
    check(symmetric);
    if (symmetric.ok()) check(c.all_reduce(symmetric->span()));
    check(c.synchronize());
  }
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  check(c.all_reduce(recv.span(), ReduceOp::premul_sum(2.0), comm::Stream(stream)));
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
  for (int i = 0; i < 2; ++i) REQUIRE(cudaGraphLaunch(executable, stream) == cudaSuccess);
  check(c.synchronize(comm::Stream(stream)));
  CHECK(recv.read() == std::vector<float>(1000, 24.0F));
  CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  check(c.backend().close());
}
