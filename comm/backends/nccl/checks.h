#pragma once

/// What is found out about an operation before NCCL is asked: arguments that NCCL would take and
/// then do something else with.

#include "comm/backends/nccl/state.h"

namespace comm::detail::nccl {

inline bool is_float8(DataType type) {
  return type == DataType::f8e4m3 || type == DataType::f8e5m2;
}

/// Whether `s` can reduce `type`.
Status check_type(const State& s, Operation operation, DataType type);

/// NCCL resolves the per-thread default stream on the thread that launches, which in non-blocking
/// mode is one of its own: another stream than the caller's.
Status check_stream(const State& s, Operation operation, Stream stream);

/// NCCL takes a send to oneself only with its receive in the same group.
Status check_peer(const State& s, Operation operation, int peer);

}  // namespace comm::detail::nccl
