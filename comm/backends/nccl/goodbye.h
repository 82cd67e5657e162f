#pragma once

/// The end of a native communicator. In good order: deregister, finalize, wait, destroy. Otherwise
/// abort. Either may never return, so both run on threads of their own; what does not end in good
/// order in time is aborted, and what is not aborted in time is left where it is.

#include <nccl.h>

#include <vector>

#include "comm/backends/nccl/waiting.h"

namespace comm::detail::nccl {

struct Parting {
  ncclComm_t comm = nullptr;
  int device = 0;
  std::vector<void*> registrations;
  std::vector<void*> windows;
};

enum class Parted {
  in_order,
  aborted,  ///< Something failed, or took too long; the communicator is gone all the same.
  stuck,    ///< NCCL does not let go of it.
};

/// `result` is what finalizing came to, where it came to anything.
Parted part_in_order(const Parting& parting, const Deadline& deadline,
                     std::chrono::milliseconds abort_timeout, ncclResult_t* result);

Parted part_by_abort(ncclComm_t comm, int device, std::chrono::milliseconds abort_timeout);

}  // namespace comm::detail::nccl
