#include "comm/backends/nccl.h"
#include "comm/backends/nccl/submit.h"

namespace comm {
namespace detail::nccl {

Status State::enqueue_barrier(Operation operation, cudaStream_t s) {
  Capture capture;
  cudaError_t failed = capture_of(s, &capture);
  if (failed != cudaSuccess) return cuda_error(failed, operation, "the stream");
  Entry call(*this, operation);
  if (!call.ok()) return call.take();
  // A sum of one word that nobody reads: NCCL has no barrier of its own.
  Scratch& used = word[capture.is_active ? 1 : 0];
  failed = used.begin(s, capture);
  if (failed != cudaSuccess) return poison(cuda_error(failed, operation, "cudaStreamWaitEvent"));
  Status done = call.settle(
      ncclAllReduce(used.memory(), used.memory(), 1, ncclUint32, ncclSum, call.comm(), s),
      "ncclAllReduce");
  if (!done.ok()) return done;
  if (call.in_group()) {
    word_in_group = {s, capture, true};  // It is on the stream when the group has ended.
    return {};
  }
  failed = used.end(s, capture);
  if (failed != cudaSuccess) return poison(cuda_error(failed, operation, "cudaEventRecord"));
  return {};
}

Status State::pass_barrier(Operation operation, const Deadline& deadline) {
  Status done = can_wait(stream, operation);
  if (done.ok()) done = enqueue_barrier(operation, stream);
  if (!done.ok()) return done;
  return wait_for_stream(stream, operation, deadline);
}

}  // namespace detail::nccl

Status Nccl::barrier(const ops::Barrier& op) {
  auto& s = *state_;
  Status sound = detail::nccl::check_stream(s, Operation::barrier, op.stream);
  if (!sound.ok()) return sound;
  return s.enqueue_barrier(Operation::barrier, s.stream_of(op.stream));
}

Status Nccl::barrier_wait(const ops::BarrierWait& op) {
  auto& s = *state_;
  const std::chrono::nanoseconds usual = s.config.collective_timeout;
  return s.pass_barrier(
      Operation::barrier_wait,
      detail::nccl::Deadline(Timeout::nanoseconds(op.timeout.nanoseconds_or(usual.count()))));
}

}  // namespace comm
