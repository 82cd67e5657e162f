#pragma once

/// What calls of the host that all ranks make tell one another: split, shrink, windows.

#include <string>
#include <vector>

#include "comm/testing/simulated/nccl/communicator.h"

namespace comm::simulated::detail {

/// Gives `mine` to all ranks and gets theirs, in rank order. False when stopped.
bool exchange(ncclComm& comm, const std::string& mine, std::vector<std::string>* all);

/// The same among `ranks` only, which all of them name; the result is in the order of `ranks`.
bool exchange(ncclComm& comm, std::uint64_t sequence, const std::vector<int>& ranks,
              const std::string& mine, std::vector<std::string>* all);

}  // namespace comm::simulated::detail
