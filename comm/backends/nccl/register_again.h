#pragma once

/// Registrations as NCCL sees them: one call for a new buffer, all of them again after a reconnect.

#include "comm/backends/nccl/entry.h"

namespace comm::detail::nccl {

/// A native handle for `entry`. Success without one is no error: NCCL then copies as before.
Status register_natively(Entry& call, RegistrationEntry& entry);

}  // namespace comm::detail::nccl
