#pragma once

/// The command line of commrun.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "comm/result.h"

namespace comm::commrun {

struct Options {
  int ranks = 0;
  std::optional<std::chrono::milliseconds> timeout;
  std::chrono::milliseconds grace{5000};  ///< Between SIGTERM and SIGKILL.
  bool help = false;
  std::vector<std::string> command;

  static Result<Options> parse(int argc, char** argv);
};

extern const char* const kHelp;

}  // namespace comm::commrun
