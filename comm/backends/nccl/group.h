#pragma once

/// Groups as NCCL has them: counted by thread, closed on every path, poisoned as a whole by one
/// member's failure. comm counts nesting itself, so NCCL sees one start and one end.

#include "comm/backends/nccl/state.h"

namespace comm::detail::nccl {

Status group_start(State& state);
Status group_end(State& state);

/// Closes what the calling thread has open, if anything; for an abort. True if something was.
bool close_own_group(State& state) noexcept;

}  // namespace comm::detail::nccl
