// Starts itself as three ranks, each of which does what the argument says.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "comm/launch/self_launch.h"

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (!comm::was_self_launched()) {
    if (mode == "inner") return 9;  // What a rank started is no rank.
    comm::Result<int> status = comm::launch_self(3, argv);
    return status.ok() ? *status : 99;
  }
  const std::string rank = variable("RANK");
  if (mode == "environment") {
    std::printf("rank %s of %s, secret of %zu, job %s, bind '%s'\n", rank.c_str(),
                variable("WORLD_SIZE").c_str(), variable("COMM_SECRET").size(),
                variable("COMM_JOB_ID").c_str(), variable("COMM_BIND").c_str());
    return 0;
  }
  if (mode == "nested")
    return std::system((std::string(argv[0]) + " inner").c_str()) == 9 << 8 ? 0 : 1;
  if (mode == "stubborn") {
    if (rank == "0") return 7;
    for (;;) pause();
  }
  return 1;
}
