#pragma once

/// What about this machine makes figures doubtful before anything was measured.

#include <string>

namespace comm::perf {

/// One sentence a line, each beginning with "# "; empty where there is nothing to say. `ranks` of the
/// backend use cores of this machine; 0 where they use GPUs.
std::string machine_warnings(int ranks);

/// The same, told what the machine is like.
std::string machine_warnings(int ranks, int cores, double load);

}  // namespace comm::perf
