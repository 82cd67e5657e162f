#pragma once

/// Where a backend reads. The model computes in host memory; `lend` has data where the backend of
/// `communicator` can reach it while `use` runs, and back when it returns.
///
///     memory.lend(communicator, numbers, [&](auto span, comm::Stream stream) {
///       return communicator.all_reduce(span, comm::ReduceOp::sum, stream);
///     });
///
/// `HostMemory` is for backends that read host memory, and does nothing; device_memory.h has the one
/// for backends that read the GPU's.

#include <span>

#include "comm/device_span.h"
#include "comm/result.h"
#include "comm/stream.h"

namespace example {

class HostMemory {
 public:
  static comm::Result<HostMemory> create(int /*local_rank*/) { return HostMemory(); }

  template <class Communicator, class T, class Use>
  comm::Status lend(Communicator&, std::span<T> data, Use use) {
    return use(comm::DeviceSpan<T>(data), comm::Stream());
  }
};

}  // namespace example
