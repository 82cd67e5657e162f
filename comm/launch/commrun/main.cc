#include <cstdio>

#include "comm/launch/commrun/options.h"
#include "comm/launch/commrun/supervisor.h"

int main(int argc, char** argv) {
  const comm::Result<comm::commrun::Options> options = comm::commrun::Options::parse(argc, argv);
  if (!options.ok()) {
    std::fprintf(stderr, "commrun: %s\n", options.message());
    return 2;
  }
  if (options->help) {
    std::fputs(comm::commrun::kHelp, stdout);
    return 0;
  }
  return comm::commrun::Supervisor(*options).run();
}
