#include "comm/backends/nccl.h"
#include "comm/backends/nccl/submit.h"

namespace comm {
using detail::nccl::native;
using detail::nccl::native_to_move;
using detail::nccl::submit;
using detail::nccl::submit_reduction;

Status Nccl::all_gather(const ops::AllGather& op) {
  return submit(*state_, op, "ncclAllGather", [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclAllGather(op.send, op.recv, op.count, native_to_move(op.type), comm, stream);
  });
}

Status Nccl::reduce_scatter(const ops::ReduceScatter& op) {
  return submit_reduction(
      *state_, op, "ncclReduceScatter", [&](ncclRedOp_t how, ncclComm_t comm, cudaStream_t stream) {
        return ncclReduceScatter(op.send, op.recv, op.count, native(op.type), how, comm, stream);
      });
}

Status Nccl::reduce(const ops::Reduce& op) {
  return submit_reduction(
      *state_, op, "ncclReduce", [&](ncclRedOp_t how, ncclComm_t comm, cudaStream_t stream) {
        return ncclReduce(op.send, op.recv, op.count, native(op.type), how, op.root, comm, stream);
      });
}

Status Nccl::broadcast_async(const ops::BroadcastAsync& op) {
  return submit(*state_, op, "ncclBroadcast", [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclBroadcast(op.buffer, op.buffer, op.count, native_to_move(op.type), op.root, comm,
                         stream);
  });
}

Status Nccl::broadcast(const ops::Broadcast& op) {
  auto& s = *state_;
  const detail::nccl::Deadline deadline = s.collective_deadline();
  Status done = s.can_wait(s.stream_of(op.stream), Operation::broadcast);
  if (done.ok()) done = broadcast_async({op.buffer, op.count, op.type, op.root, op.stream});
  if (!done.ok()) return done;
  return s.wait_for_stream(s.stream_of(op.stream), Operation::broadcast, deadline);
}

Status Nccl::recv_command_u32(const ops::RecvCommandU32& op) {
  auto& s = *state_;
  if (op.root == s.rank) return Status(detail::kRootReceivesNoCommand);
  const cudaStream_t stream = s.stream_of(op.stream);
  Status done = s.can_wait(stream, Operation::recv_command_u32);
  if (!done.ok()) return done;
  done = submit(s, op, "ncclBroadcast", [&](ncclComm_t comm, cudaStream_t on) {
    return ncclBroadcast(op.buffer, op.buffer, 1, ncclUint32, op.root, comm, on);
  });
  if (!done.ok()) return done;
  return s.wait_for_stream(stream, Operation::recv_command_u32,
                           detail::nccl::Deadline(Timeout::never()));
}

Status Nccl::synchronize(const ops::Synchronize& op) {
  auto& s = *state_;
  const std::chrono::nanoseconds usual = s.config.collective_timeout;
  const detail::nccl::Deadline deadline(
      Timeout::nanoseconds(op.timeout.nanoseconds_or(usual.count())));
  Status done = s.can_wait(s.stream_of(op.stream), Operation::synchronize);
  if (!done.ok()) return done;
  return s.wait_for_stream(s.stream_of(op.stream), Operation::synchronize, deadline);
}

}  // namespace comm
