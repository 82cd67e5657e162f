#pragma once

/// A `World` is the dumps of one communicator: one a rank, some of which may be missing. Dumps of
/// several communicators are told apart by name, and those of one name in one process by when they
/// were made; of two dumps of one recorder the later one counts.

#include <cstdint>
#include <string>
#include <vector>

#include "comm/trace/dump.h"

namespace comm::trace {

struct World {
  std::string name;
  int size = 0;
  std::vector<Dump> dumps;         ///< In the order of ranks, one for each that has one.
  std::vector<int> missing;        ///< Ranks that have none.
  std::vector<std::string> notes;  ///< What was left out, and why.
};

/// In the order of names.
std::vector<World> sort_into_worlds(std::vector<Dump> dumps);

}  // namespace comm::trace
