#pragma once

/// What of an ncclConfig_t matters here, and how communicators are made from it.

#include <nccl.h>

#include "comm/testing/simulated/nccl/communicator.h"

namespace comm::simulated::detail {

struct Configuration {
  bool blocking = true;
  bool share = false;
};

/// Checks it as NCCL does; null means the defaults, or those of `parent`. NCCL_COMM_BLOCKING
/// overrides what it says.
ncclResult_t read_configuration(const ncclConfig_t* config, const ncclComm* parent,
                                Configuration* options);

/// A new communicator in its table, not initialised, with its endpoint.
CommPtr make_communicator(int size, int rank, int device, std::uint64_t number,
                          const Configuration& options);

/// Sets the rank and what depends on the world size, for those that learn it late.
void set_place(ncclComm& comm, int size, int rank, std::uint64_t number);

Address address_of(const ncclComm& comm);

}  // namespace comm::simulated::detail
