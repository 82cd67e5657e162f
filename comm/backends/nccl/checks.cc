#include "comm/backends/nccl/checks.h"

namespace comm::detail::nccl {

Status check_type(const State& s, Operation operation, DataType type) {
  if (!is_float8(type) || s.reduces_float8) return {};
  return s.error(StatusCode::unsupported, 0, operation,
                 "%s can be moved but not reduced here: that needs NCCL 2.24 and GPUs of compute "
                 "capability 9.0",
                 to_string(type));
}

Status check_stream(const State& s, Operation operation, Stream stream) {
  const bool elsewhere = s.config.mode == NcclMode::non_blocking && stream.is_given() &&
                         stream.get() == cudaStreamPerThread;
  if (!elsewhere) return {};
  return s.error(StatusCode::invalid_argument, 0, operation,
                 "the per-thread default stream means another stream on the thread that NCCL "
                 "launches from in non-blocking mode; pass a stream that was created");
}

Status check_peer(const State& s, Operation operation, int peer) {
  if (peer != s.rank || open_groups() > 0) return {};
  return s.error(StatusCode::invalid_argument, 0, operation,
                 "a rank that sends to itself must receive in the same group; use send_recv, or "
                 "open a group around both");
}

}  // namespace comm::detail::nccl
