// A rank whose cable is pulled, with Nccl on the simulation, where a peer's silence is no error of
// NCCL's: the operation just does not end.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "tests/health/black_hole.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "comm/backends/nccl.h"
#include "comm/testing/simulated/faults.h"

namespace {

struct OnNccl {
  using Backend = comm::Nccl;
  static constexpr bool kLosesData = true;
  static constexpr std::size_t kCount = 5000;

  static comm::NcclConfig config(int rank) {
    (void)cudaSetDevice(rank);
    comm::NcclConfig config;
    config.device = rank;
    config.collective_timeout = comm::test::kDeadline;
    config.close_timeout = std::chrono::seconds(1);
    config.abort_timeout = std::chrono::seconds(2);
    config.abort_on_failure = false;  // Its handle is asked afterwards.
    config.receive_buffer_bytes = 8 << 10;
    config.one_shot_bytes = 1 << 10;
    config.log = [](std::string_view) {};
    return config;
  }

  class Numbers {
   public:
    Numbers() {
      if (cudaMalloc(reinterpret_cast<void**>(&data_), kCount * sizeof(int)) != cudaSuccess)
        std::abort();
    }
    Numbers(const Numbers&) = delete;
    comm::DeviceSpan<int> span() { return {data_, kCount}; }
    void fill(int value) {
      const std::vector<int> values(kCount, value);
      (void)cudaMemcpy(data_, values.data(), kCount * sizeof(int), cudaMemcpyHostToDevice);
    }
    bool all_are(int value) const {
      std::vector<int> values(kCount);
      (void)cudaMemcpy(values.data(), data_, kCount * sizeof(int), cudaMemcpyDeviceToHost);
      return values == std::vector<int>(kCount, value);
    }

   private:
    int* data_ = nullptr;  // The process ends with it.
  };

  static void lose_data() {
    comm::simulated::inject(
        {.call = "ncclAllReduce", .nth = 0, .action = comm::simulated::FaultAction::never_finish});
  }

  static auto ear(const comm::Communicator<comm::Nccl>& c) {
    return [native = c.backend().native_handle()] {
      ncclResult_t heard = ncclSystemError;
      return ncclCommGetAsyncError(native, &heard) == ncclSuccess && heard == ncclSuccess;
    };
  }
};

const comm::test::BlackHole<OnNccl>& black_hole() {
  static const comm::test::BlackHole<OnNccl> only;
  return only;
}

}  // namespace

TEST_CASE("Nccl: a cable that is out for 300 ms is not noticed, and the results are right") {
  black_hole().passes(1, 300);
}

TEST_CASE("Nccl: a rank whose cable is pulled is named by all others, whatever they wait in") {
  black_hole().swallows(2);
}

TEST_CASE("Nccl: so is rank 0, and it learns that it is cut off itself") {
  black_hole().swallows(0);
}
