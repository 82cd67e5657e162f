// What Checked adds to the submission of a call over Nccl, on simulated GPUs: the comparison goes over
// the rendezvous' channel and is the same on real ones. See checked_bench.h.
//
//     bazel run -c opt //bench:checked_bench_nccl

#include <cuda_runtime_api.h>

#include "bench/checked_bench.h"
#include "comm/backends/nccl.h"
#include "comm/decorators/checked.h"

namespace {

using comm::Checked, comm::Communicator, comm::DeviceSpan, comm::Nccl;

comm::NcclConfig config_of(int rank, comm::LaunchConfig launch) {
  comm::NcclConfig config;
  config.launch = std::move(launch);
  config.device = rank;
  config.log = [](std::string_view) {};
  return config;
}

template <class B>
double time_of_all_reduce(int ranks) {
  thread_local float* word = nullptr;
  return comm::bench::time_of<B>(
      ranks, config_of,
      [](Communicator<B>& c) {
        if (word == nullptr) {
          (void)cudaSetDevice(c.rank());
          (void)cudaMalloc(reinterpret_cast<void**>(&word), 8);
        }
        // No sum of NCCL's small ones, which would launch a kernel of the simulation's.
        return c.all_reduce(DeviceSpan<float>(word, 2), comm::ReduceOp::max);
      },
      [](Communicator<B>& c) { c.synchronize().ignore(); });
}

/// Each count sent has to be the count expected: digests differ from rank to rank.
template <class B>
double time_of_all_to_all_v(int ranks) {
  thread_local float* words = nullptr;
  return comm::bench::time_of<B>(
      ranks, config_of,
      [](Communicator<B>& c) {
        const auto n = static_cast<std::size_t>(c.world_size());
        if (words == nullptr) {
          (void)cudaSetDevice(c.rank());
          (void)cudaMalloc(reinterpret_cast<void**>(&words), 2 * n * sizeof(float));
        }
        const std::vector<std::size_t> counts(n, 1);
        return c
            .all_to_all_v(DeviceSpan<float>(words, n), counts.data(),
                          DeviceSpan<float>(words + n, n), counts.data())
            .status()
            .copy();
      },
      [](Communicator<B>& c) { c.synchronize().ignore(); });
}

}  // namespace

int main() {
  comm::bench::print_heading();
  for (const int ranks : {2, 4, 8})
    comm::bench::print_row("Nccl", "`all_reduce`, 8 B", ranks, time_of_all_reduce<Nccl>(ranks),
                           time_of_all_reduce<Checked<Nccl>>(ranks));
  for (const int ranks : {2, 4, 8})
    comm::bench::print_row("Nccl", "`all_to_all_v`, 4 B each", ranks,
                           time_of_all_to_all_v<Nccl>(ranks),
                           time_of_all_to_all_v<Checked<Nccl>>(ranks));
}
