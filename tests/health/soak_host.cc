// A soak of the Host backend; see soak.h.
#include "comm/backends/host.h"
#include "tests/health/soak.h"

namespace {

using comm::Communicator;
using comm::Host;
using namespace comm::test;

class Memory {
 public:
  explicit Memory(std::size_t count) : send_(count), recv_(count) {}
  float* send() { return send_.data(); }
  float* recv() { return recv_.data(); }
  void fill(const std::vector<float>& values) {
    std::copy(values.begin(), values.end(), send_.begin());
    std::copy(values.begin(), values.end(), recv_.begin());
  }
  std::vector<float> read(std::size_t count) const { return {recv_.data(), recv_.data() + count}; }

 private:
  std::vector<float> send_, recv_;
};

}  // namespace

int main(int argc, char** argv) {
  const SoakOptions options = SoakOptions::parse(argc, argv);
  const Meeting meeting(options);
  if (!meeting.ok()) return 2;
  Soak soak(options, meeting, [&](Board& board, int rank) {
    comm::Host::Config config;
    config.launch = meeting.launch(rank);
    config.collective_timeout = kCollectiveTimeout;
    config.reconnect_timeout = kReconnectTimeout;
    config.log = [](std::string_view) {};
    return live<Host, Memory>(board, options, rank, config);
  });
  return soak.run();
}
