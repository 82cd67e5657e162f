#pragma once

/// The end of a native communicator. In good order: deregister, finalize, wait, destroy. Otherwise
/// abort. Either may never return, so both run on threads of their own; what does not end in good
/// order in time is aborted, and what is not aborted in time is left where it is.

#include <nccl.h>

#include <atomic>
#include <memory>
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

/// Set when NCCL has let go after all.
using LateEnd = std::shared_ptr<std::atomic<bool>>;

/// `result` is what finalizing came to, where it came to anything. `late` is for what is stuck.
Parted part_in_order(const Parting& parting, const Deadline& deadline,
                     std::chrono::milliseconds abort_timeout, ncclResult_t* result,
                     LateEnd* late = nullptr);

Parted part_by_abort(ncclComm_t comm, int device, std::chrono::milliseconds abort_timeout,
                     LateEnd* late = nullptr);

}  // namespace comm::detail::nccl
