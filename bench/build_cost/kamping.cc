// The same program over KaMPIng, a C++ binding of MPI.
#include <kamping/collectives/allreduce.hpp>
#include <kamping/communicator.hpp>
#include <kamping/environment.hpp>
#include <vector>

int main(int argc, char** argv) {
  kamping::Environment environment(argc, argv);
  kamping::Communicator world;
  std::vector<float> values{1, 2};
  world.allreduce(kamping::send_recv_buf(values), kamping::op(kamping::ops::plus<>()));
  return 0;
}
