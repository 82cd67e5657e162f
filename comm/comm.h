#pragma once

/// The one header engines include: `Communicator` with the backend that the build chose.
///
///     bazel build                 // SingleGpu
///     bazel build --config=nccl   // Nccl
///     bazel build --config=host   // Host
///
///     auto communicator = comm::DefaultCommunicator::create();
///
/// Without Bazel, add the include path of the choice: `-Icomm/backends/default/host`.

#include "comm/communicator.h"
#include "comm/default_backend.h"

namespace comm {

using DefaultCommunicator = Communicator<DefaultBackend>;

static_assert(Backend<DefaultBackend>);

}  // namespace comm
