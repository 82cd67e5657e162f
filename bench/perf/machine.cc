#include "bench/perf/machine.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>

namespace comm::perf {
namespace {

int cores_of_this_process() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace

std::string machine_warnings(int ranks, int cores, double load) {
  std::string warnings;
  char line[200];
  if (ranks > cores) {
    std::snprintf(
        line, sizeof line,
        "# %d ranks share %d cores: times are those of taking turns, not of moving data.\n", ranks,
        cores);
    warnings += line;
  }
  if (load > 0.5) {
    std::snprintf(line, sizeof line,
                  "# this machine was busy before: a load of %.1f on %d cores in the last minute. "
                  "Do not trust small differences.\n",
                  load, cores);
    warnings += line;
  }
  return warnings;
}

std::string machine_warnings(int ranks) {
  double load = 0;
  if (getloadavg(&load, 1) != 1) load = 0;
  return machine_warnings(ranks, cores_of_this_process(), load);
}

}  // namespace comm::perf
