// What each operation computes (NCCL User Guide, "Collective Operations", "In-place Operations",
// "Point-to-point communication"; NCCL API, "Types", "Collective Communication Functions").

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <limits>

#include "tests/simulated/fixture.h"
#include "tests/simulated/own_symbols.h"

using namespace comm;
using namespace comm::testing;

namespace {

constexpr std::size_t kCount = 37;

std::vector<int> range_from(int first, std::size_t count) {
  std::vector<int> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = first + static_cast<int>(i);
  return values;
}

// The one-element all-reduce of `values`, one per rank, as the type stores them.
template <class T>
std::vector<T> reduced(const std::vector<T>& values, ncclDataType_t type, ncclRedOp_t op) {
  std::vector<T> results(values.size());
  with_ranks(static_cast<int>(values.size()), [&](Rank r) {
    const std::size_t rank = static_cast<std::size_t>(r.rank);
    Buffer<T> data({values[rank]}, r.stream);
    CHECK(ncclAllReduce(data.get(), data.get(), 1, type, op, r.comm, r.stream) == ncclSuccess);
    results[rank] = data.take(r.stream)[0];
  });
  return results;
}

template <class T>
std::vector<float> reduced_floats(const std::vector<float>& values, ncclDataType_t type,
                                  ncclRedOp_t op) {
  std::vector<T> stored;
  for (float value : values) stored.push_back(T(value));
  std::vector<float> results;
  for (T result : reduced(stored, type, op)) results.push_back(static_cast<float>(result));
  return results;
}

}  // namespace

TEST_CASE("the symbols are the simulation's, the profiler's names too") {
  CHECK(is_simulated(ncclAllReduce));
  CHECK(is_simulated(pncclAllReduce));
  CHECK(is_simulated(ncclSend));
  CHECK(is_simulated(cudaStreamSynchronize));
}

TEST_CASE("every collective, under many schedules") {
  Watchdog watchdog("collectives");
  NoReports none;
  for (unsigned seed = 1; seed <= 6; ++seed) {
    simulated::set_seed(seed);
    constexpr int kSize = 3;
    with_ranks(kSize, [](Rank r) {
      const int root = 1;
      const std::vector<int> mine = range_from(100 * r.rank, kCount);
      Buffer<int> send(range_from(100 * r.rank, kCount * kSize), r.stream);
      Buffer<int> receive(kCount * kSize);
      const auto got = [&](std::size_t i) { return receive.take(r.stream)[i]; };

      CHECK(ncclAllReduce(send.get(), receive.get(), kCount, ncclInt, ncclSum, r.comm, r.stream) ==
            ncclSuccess);
      CHECK(got(5) == 300 + 3 * 5);

      CHECK(ncclReduce(send.get(), receive.get(), kCount, ncclInt, ncclMax, root, r.comm,
                       r.stream) == ncclSuccess);
      if (r.rank == root) CHECK(got(5) == 205);

      CHECK(ncclBroadcast(send.get(), receive.get(), kCount, ncclInt, root, r.comm, r.stream) ==
            ncclSuccess);
      CHECK(got(5) == 105);

      CHECK(ncclAllGather(send.get(), receive.get(), kCount, ncclInt, r.comm, r.stream) ==
            ncclSuccess);
      CHECK(got(2 * kCount + 5) == 205);

      CHECK(ncclReduceScatter(send.get(), receive.get(), kCount, ncclInt, ncclSum, r.comm,
                              r.stream) == ncclSuccess);
      CHECK(got(5) == 300 + 3 * (r.rank * static_cast<int>(kCount) + 5));

      CHECK(ncclAlltoAll(send.get(), receive.get(), kCount, ncclInt, r.comm, r.stream) ==
            ncclSuccess);
      CHECK(got(2 * kCount + 5) == 200 + r.rank * static_cast<int>(kCount) + 5);

      CHECK(ncclGather(send.get(), receive.get(), kCount, ncclInt, root, r.comm, r.stream) ==
            ncclSuccess);
      if (r.rank == root) CHECK(got(2 * kCount + 5) == 205);

      CHECK(ncclScatter(send.get(), receive.get(), kCount, ncclInt, root, r.comm, r.stream) ==
            ncclSuccess);
      CHECK(got(5) == 100 + r.rank * static_cast<int>(kCount) + 5);
    });
  }
}

TEST_CASE("in place where NCCL allows it (trap 25)") {
  Watchdog watchdog("in place");
  NoReports none;
  with_ranks(3, [](Rank r) {
    const std::size_t rank = static_cast<std::size_t>(r.rank);
    Buffer<int> data(range_from(100 * r.rank, 3 * kCount), r.stream);
    int* mine = data.get() + rank * kCount;
    CHECK(ncclAllGather(mine, data.get(), kCount, ncclInt, r.comm, r.stream) == ncclSuccess);
    std::vector<int> got = data.take(r.stream);
    CHECK(got[2 * kCount] == 200 + 2 * static_cast<int>(kCount));

    data.put(range_from(100 * r.rank, 3 * kCount), r.stream);
    CHECK(ncclReduceScatter(data.get(), mine, kCount, ncclInt, ncclSum, r.comm, r.stream) ==
          ncclSuccess);
    got = data.take(r.stream);
    CHECK(got[rank * kCount + 1] == 300 + 3 * static_cast<int>(rank * kCount + 1));

    data.put(range_from(100 * r.rank, 3 * kCount), r.stream);
    const int root = 2;
    CHECK(ncclGather(r.rank == root ? mine : data.get(), data.get(), kCount, ncclInt, root, r.comm,
                     r.stream) == ncclSuccess);
    got = data.take(r.stream);
    if (r.rank == root) CHECK(got[kCount] == 100);
    if (r.rank == root) CHECK(got[2 * kCount] == 200 + 2 * static_cast<int>(kCount));
  });
}

TEST_CASE("the all-to-all in place, which NCCL lacks, is reported (trap 25)") {
  Watchdog watchdog("all-to-all in place");
  NoReports none;
  with_ranks(2, [](Rank r) {
    Buffer<int> data(range_from(0, 2 * kCount), r.stream);
    ncclAlltoAll(data.get(), data.get(), kCount, ncclInt, r.comm, r.stream);
    cudaStreamSynchronize(r.stream);
  });
  CHECK(simulated::take_reports().size() == 2);
}

TEST_CASE("sums of 16 and 8 bits are kept in 32 bits and rounded once") {
  Watchdog watchdog("sums");
  NoReports none;
  const std::vector<float> values{256, 1, 1, 1, 1, 1, 1, 1};
  CHECK(reduced_floats<__nv_bfloat16>(values, ncclBfloat16, ncclSum) ==
        std::vector<float>(8, 264.0F));
  CHECK(reduced_floats<__half>({2048, 1, 1}, ncclFloat16, ncclSum) ==
        std::vector<float>(3, 2050.0F));
  CHECK(reduced_floats<__nv_fp8_e4m3>({16, 1, 1}, ncclFloat8e4m3, ncclSum) ==
        std::vector<float>(3, 18.0F));
  CHECK(reduced_floats<__nv_fp8_e5m2>({8, 1, 1}, ncclFloat8e5m2, ncclMax) ==
        std::vector<float>(3, 8.0F));
}

TEST_CASE("integers wrap, and their average is the sum divided (trap 27)") {
  Watchdog watchdog("integers");
  NoReports none;
  CHECK(reduced<std::int8_t>({120, 100}, ncclInt8, ncclSum)[0] == -36);
  CHECK(reduced<std::int32_t>({1, 2, 4}, ncclInt32, ncclAvg)[0] == 2);
  CHECK(reduced<std::uint8_t>({200, 100}, ncclUint8, ncclProd)[0] == 32);
  CHECK(reduced<std::int64_t>({std::numeric_limits<std::int64_t>::max(), 1}, ncclInt64,
                              ncclSum)[0] == std::numeric_limits<std::int64_t>::min());
  CHECK(reduced<std::int32_t>({-5, 3}, ncclInt32, ncclMin)[1] == -5);
}

TEST_CASE("a float average multiplies by a rounded 1/n first (trap 27)") {
  Watchdog watchdog("averages");
  NoReports none;
  const float third = __bfloat162float(__float2bfloat16(1.0F / 3));
  const float product = __bfloat162float(__float2bfloat16(3.0F * third));
  const float sum = __bfloat162float(__float2bfloat16(product + product + product));
  CHECK(reduced_floats<__nv_bfloat16>({3, 3, 3}, ncclBfloat16, ncclAvg)[0] == sum);
  CHECK(reduced<double>({1, 2}, ncclFloat64, ncclAvg)[0] == 1.5);
}

TEST_CASE("a zero-count collective enqueues nothing and checks nothing (trap 24)") {
  Watchdog watchdog("zero");
  NoReports none;
  with_ranks(2, [](Rank r) {
    if (r.rank == 0) {
      CHECK(ncclAllReduce(nullptr, nullptr, 0, ncclNumTypes, ncclSum, r.comm, r.stream) ==
            ncclSuccess);
    }
    CHECK(cudaStreamSynchronize(r.stream) == cudaSuccess);
  });
}

TEST_CASE("a zero-count message still needs its match (trap 24)") {
  Watchdog watchdog("zero messages");
  NoReports none;
  with_ranks(2, [](Rank r) {
    const int peer = 1 - r.rank;
    CHECK((r.rank == 0 ? ncclSend(nullptr, 0, ncclInt, peer, r.comm, r.stream)
                       : ncclRecv(nullptr, 0, ncclInt, peer, r.comm, r.stream)) == ncclSuccess);
    CHECK(cudaStreamSynchronize(r.stream) == cudaSuccess);
  });
}

TEST_CASE("a group lets both ranks send and receive; to itself only in a group (trap 26)") {
  Watchdog watchdog("send and receive");
  NoReports none;
  for (unsigned seed = 1; seed <= 10; ++seed) {
    simulated::set_seed(seed);
    with_ranks(2, [](Rank r) {
      Buffer<int> send(range_from(10 * r.rank, kCount), r.stream);
      Buffer<int> receive(kCount);
      Buffer<int> own(kCount);
      ncclGroupStart();
      ncclSend(send.get(), kCount, ncclInt, 1 - r.rank, r.comm, r.stream);
      ncclRecv(receive.get(), kCount, ncclInt, 1 - r.rank, r.comm, r.stream);
      ncclSend(send.get(), kCount, ncclInt, r.rank, r.comm, r.stream);
      ncclRecv(own.get(), kCount, ncclInt, r.rank, r.comm, r.stream);
      CHECK(ncclGroupEnd() == ncclSuccess);
      CHECK(receive.take(r.stream)[1] == 10 * (1 - r.rank) + 1);
      CHECK(own.take(r.stream)[1] == 10 * r.rank + 1);
      CHECK(ncclSend(send.get(), 1, ncclInt, r.rank, r.comm, r.stream) == ncclInvalidUsage);
    });
  }
}

TEST_CASE("a pre-multiplied sum scales each rank's input by its own scalar (trap 28)") {
  Watchdog watchdog("pre-multiplied sum");
  NoReports none;
  with_ranks(2, [](Rank r) {
    float scalar = r.rank == 0 ? 2.0F : 10.0F;
    ncclRedOp_t immediate{};
    CHECK(ncclRedOpCreatePreMulSum(&immediate, &scalar, ncclFloat, ncclScalarHostImmediate,
                                   r.comm) == ncclSuccess);
    Buffer<float> on_device({scalar}, r.stream);
    ncclRedOp_t late{};
    CHECK(ncclRedOpCreatePreMulSum(&late, on_device.get(), ncclFloat, ncclScalarDevice, r.comm) ==
          ncclSuccess);
    scalar = 0;
    for (ncclRedOp_t op : {immediate, late}) {
      Buffer<float> data({1.0F}, r.stream);
      CHECK(ncclAllReduce(data.get(), data.get(), 1, ncclFloat, op, r.comm, r.stream) ==
            ncclSuccess);
      CHECK(ncclRedOpDestroy(op, r.comm) == ncclSuccess);
      CHECK(data.take(r.stream)[0] == 12.0F);
    }
    Buffer<int> integers(1);
    CHECK(ncclAllReduce(integers.get(), integers.get(), 1, ncclInt, immediate, r.comm, r.stream) ==
          ncclInvalidArgument);
  });
}

TEST_CASE("one communicator's operations on two streams keep their order") {
  Watchdog watchdog("two streams");
  NoReports none;
  for (unsigned seed = 1; seed <= 10; ++seed) {
    simulated::set_seed(seed);
    with_ranks(2, [](Rank r) {
      OwnedStream other;
      Buffer<int> a({1}, r.stream);
      Buffer<int> b({r.rank}, other);
      ncclAllReduce(a.get(), a.get(), 1, ncclInt, ncclSum, r.comm, r.stream);
      ncclAllReduce(b.get(), b.get(), 1, ncclInt, ncclSum, r.comm, other);
      CHECK(b.take(other)[0] == 1);
      CHECK(a.take(r.stream)[0] == 2);
    });
  }
}

TEST_CASE("a group over two streams orders both of them (trap 32)") {
  Watchdog watchdog("group over two streams");
  NoReports none;
  for (unsigned seed = 1; seed <= 10; ++seed) {
    simulated::set_seed(seed);
    with_ranks(2, [](Rank r) {
      OwnedStream other;
      Buffer<int> a({1}, r.stream);
      Buffer<int> b({2}, other);
      Buffer<int> copy(1);
      ncclGroupStart();
      ncclAllReduce(a.get(), a.get(), 1, ncclInt, ncclSum, r.comm, r.stream);
      ncclAllReduce(b.get(), b.get(), 1, ncclInt, ncclSum, r.comm, other);
      CHECK(ncclGroupEnd() == ncclSuccess);
      // The group is over for both streams at once.
      cudaMemcpyAsync(copy.get(), a.get(), sizeof(int), cudaMemcpyDeviceToDevice, other);
      CHECK(copy.take(other)[0] == 2);
      CHECK(b.take(r.stream)[0] == 4);
    });
  }
}
