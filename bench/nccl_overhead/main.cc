// A loop of all-reduces, bare or through comm, for callgrind to count (measure.py).

#include <nccl.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "comm/backends/nccl.h"
#include "comm/communicator.h"

namespace {

[[gnu::noinline]] int loop_bare(ncclComm_t comm, float* data, std::size_t count,
                                cudaStream_t stream, int times) {
  int failed = 0;
  for (int i = 0; i < times; ++i)
    failed += ncclAllReduce(data, data, count, ncclFloat32, ncclSum, comm, stream) != ncclSuccess;
  return failed;
}

[[gnu::noinline]] int loop_comm(comm::Communicator<comm::Nccl>& c, float* data, std::size_t count,
                                cudaStream_t stream, int times) {
  int failed = 0;
  for (int i = 0; i < times; ++i)
    failed += !c.all_reduce(comm::DeviceSpan<float>(data, count), comm::ReduceOp::sum,
                            comm::Stream(stream))
                   .ok();
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  comm::NcclConfig config;
  config.launch = comm::LaunchConfig::local(0, 1, 0);
  auto made = comm::Communicator<comm::Nccl>::create(config);
  if (!made.ok()) return std::fprintf(stderr, "%s\n", made.message()), 1;
  const bool through_comm = argc > 1 && std::strcmp(argv[1], "comm") == 0;
  const int times = argc > 2 ? std::atoi(argv[2]) : 0;
  auto* data = reinterpret_cast<float*>(64);
  auto* stream = reinterpret_cast<cudaStream_t>(64);
  std::size_t count = 1 << 20;
  asm volatile("" : "+r"(data), "+r"(stream), "+r"(count));  // Unknown, as to an engine.
  return through_comm ? loop_comm(*made, data, count, stream, times)
                      : loop_bare(made->backend().native_handle(), data, count, stream, times);
}
