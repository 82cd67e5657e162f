// A loop of all-reduces, bare, through comm or through a flight recorder, for callgrind to count (measure.py).

#include <nccl.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "comm/backends/nccl.h"
#include "comm/communicator.h"
#include "comm/decorators/recorded.h"

namespace {

[[gnu::noinline]] int loop_bare(ncclComm_t comm, float* data, std::size_t count,
                                cudaStream_t stream, int times) {
  int failed = 0;
  for (int i = 0; i < times; ++i)
    failed += ncclAllReduce(data, data, count, ncclFloat32, ncclSum, comm, stream) != ncclSuccess;
  return failed;
}

template <class B>
[[gnu::always_inline]] inline int loop(comm::Communicator<B>& c, float* data, std::size_t count,
                                       cudaStream_t stream, int times) {
  int failed = 0;
  for (int i = 0; i < times; ++i)
    failed += !c.all_reduce(comm::DeviceSpan<float>(data, count), comm::ReduceOp::sum,
                            comm::Stream(stream))
                   .ok();
  return failed;
}

[[gnu::noinline]] int loop_comm(comm::Communicator<comm::Nccl>& c, float* data, std::size_t count,
                                cudaStream_t stream, int times) {
  return loop(c, data, count, stream, times);
}

[[gnu::noinline]] int loop_recorded(comm::Communicator<comm::Recorded<comm::Nccl>>& c, float* data,
                                    std::size_t count, cudaStream_t stream, int times) {
  return loop(c, data, count, stream, times);
}

template <class B, class Loop>
int run(Loop loop, int times) {
  comm::NcclConfig config;
  config.launch = comm::LaunchConfig::local(0, 1, 0);
  auto made = comm::Communicator<B>::create(config);
  if (!made.ok()) return std::fprintf(stderr, "%s\n", made.message()), 1;
  auto* data = reinterpret_cast<float*>(64);
  auto* stream = reinterpret_cast<cudaStream_t>(64);
  std::size_t count = 1 << 20;
  asm volatile("" : "+r"(data), "+r"(stream), "+r"(count));  // Unknown, as to an engine.
  return loop(*made, data, count, stream, times);
}

int run_bare(int times) {
  return run<comm::Nccl>(
      [](auto& c, float* data, std::size_t count, cudaStream_t stream, int n) {
        return loop_bare(c.backend().native_handle(), data, count, stream, n);
      },
      times);
}

}  // namespace

int main(int argc, char** argv) {
  const char* way = argc > 1 ? argv[1] : "";
  const int times = argc > 2 ? std::atoi(argv[2]) : 0;
  if (std::strcmp(way, "bare") == 0) return run_bare(times);
  if (std::strcmp(way, "comm") == 0) return run<comm::Nccl>(loop_comm, times);
  if (std::strcmp(way, "recorded") == 0)
    return run<comm::Recorded<comm::Nccl>>(loop_recorded, times);
  std::fprintf(stderr, "usage: loop bare|comm|recorded TIMES\n");
  return 2;
}
