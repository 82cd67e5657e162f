// A soak of the Nccl backend on the simulation, where a peer's death is silent; see soak.h.
#include <cuda_runtime_api.h>

#include "comm/backends/nccl.h"
#include "comm/testing/simulated/settings.h"
#include "tests/health/soak.h"

namespace {

using comm::Nccl;
using namespace comm::test;

class Memory {
 public:
  explicit Memory(std::size_t count) {
    for (float*& block : blocks_)
      if (cudaMalloc(reinterpret_cast<void**>(&block), count * sizeof(float)) != cudaSuccess)
        std::abort();
  }
  Memory(const Memory&) = delete;
  ~Memory() {
    for (float* block : blocks_) (void)cudaFree(block);
  }
  float* send() { return blocks_[0]; }
  float* recv() { return blocks_[1]; }
  void fill(const std::vector<float>& values) {
    for (float* block : blocks_)
      (void)cudaMemcpy(block, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice);
  }
  std::vector<float> read(std::size_t count) const {
    std::vector<float> values(count);
    (void)cudaMemcpy(values.data(), blocks_[1], count * sizeof(float), cudaMemcpyDeviceToHost);
    return values;
  }

 private:
  float* blocks_[2] = {};
};

}  // namespace

int main(int argc, char** argv) {
  const SoakOptions options = SoakOptions::parse(argc, argv);
  const Meeting meeting(options);
  if (!meeting.ok()) return 2;
  Soak soak(options, meeting, [&](Board& board, int rank) {
    comm::NcclConfig config;
    config.launch = meeting.launch(rank);
    config.device = rank;
    config.collective_timeout = kCollectiveTimeout;
    config.reconnect_timeout = kReconnectTimeout;
    config.close_timeout = std::chrono::seconds(1);
    config.abort_timeout = std::chrono::seconds(2);
    config.receive_buffer_bytes = 8 << 10;
    config.one_shot_bytes = 1 << 10;
    config.log = [](std::string_view) {};
    return live<Nccl, Memory>(board, options, rank, config);
  });
  return soak.run();
}
