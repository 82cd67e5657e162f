#pragma once

/// `submit` is the way of most operations: check the stream, enter, make NCCL's call, see what came
/// of it. `submit_reduction` does the same with the reduction operation made for the call.

#include "comm/backends/nccl/checks.h"
#include "comm/backends/nccl/entry.h"
#include "comm/backends/nccl/premul_sum.h"

namespace comm::detail::nccl {

/// `call(comm, stream)`; `name` is NCCL's, for errors.
template <class Op, class Call>
Status submit(State& s, const Op& op, const char* name, Call&& call, Peers peers = {}) {
  Status sound = check_stream(s, Op::operation, op.stream);
  if (!sound.ok()) return sound;
  Entry entry(s, Op::operation);
  if (!entry.ok()) return entry.take();
  entry.set_peers(peers);
  return entry.settle(call(entry.comm(), s.stream_of(op.stream)), name);
}

/// `call(reduction, comm, stream)`.
template <class Op, class Call>
Status submit_reduction(State& s, const Op& op, const char* name, Call&& call) {
  Status sound = check_type(s, Op::operation, op.type);
  if (sound.ok()) sound = check_stream(s, Op::operation, op.stream);
  if (!sound.ok()) return sound;
  Entry entry(s, Op::operation);
  if (!entry.ok()) return entry.take();
  const CallOp reduction(op.op, op.type, entry.comm());
  if (reduction.result() != ncclSuccess)
    return entry.settle(reduction.result(), "ncclRedOpCreatePreMulSum");
  return entry.settle(call(reduction.get(), entry.comm(), s.stream_of(op.stream)), name);
}

}  // namespace comm::detail::nccl
