#include "comm/backends/nccl.h"
#include "comm/backends/nccl/state.h"

namespace comm {
namespace detail::nccl {
namespace {

/// What is on `later` from now on waits for what is on `earlier` now.
cudaError_t order(State& s, cudaStream_t earlier, cudaStream_t later, bool captured) {
  const PooledEvent event(s.events, captured);
  cudaError_t error = event.error();
  if (error == cudaSuccess) error = cudaEventRecord(event.get(), earlier);
  if (error == cudaSuccess) error = cudaStreamWaitEvent(later, event.get(), 0);
  return error;
}

}  // namespace
}  // namespace detail::nccl

using detail::nccl::PooledEvent;

NcclTicket::NcclTicket(std::shared_ptr<detail::nccl::State> state, cudaEvent_t done,
                       bool captured) noexcept
    : state_(std::move(state)), done_(done), captured_(captured) {}

NcclTicket::NcclTicket(NcclTicket&& other) noexcept
    : state_(std::move(other.state_)),
      done_(std::exchange(other.done_, nullptr)),
      captured_(other.captured_) {}

NcclTicket& NcclTicket::operator=(NcclTicket&& other) noexcept {
  if (this == &other) return *this;
  release();
  state_ = std::move(other.state_);
  done_ = std::exchange(other.done_, nullptr);
  captured_ = other.captured_;
  return *this;
}

NcclTicket::~NcclTicket() {
  release();
}

void NcclTicket::release() noexcept {
  if (done_ != nullptr) state_->events.give_back(captured_, std::exchange(done_, nullptr));
}

Status NcclTicket::join(Stream compute) {
  if (done_ == nullptr) return {};
  auto& s = *state_;
  if (!s.is_open()) return s.refuse(Operation::all_reduce_deferred);
  const cudaError_t error = cudaStreamWaitEvent(s.stream_of(compute), done_, 0);
  if (error != cudaSuccess)
    return s.poison(s.cuda_error(error, Operation::all_reduce_deferred, "cudaStreamWaitEvent"));
  return {};
}

Result<NcclTicket> Nccl::start_all_reduce(Operation operation, const ops::AllReduceAsync& op) {
  auto& s = *state_;
  if (!s.is_open()) return s.refuse(operation);
  if (detail::nccl::open_groups() > 0)
    return s.error(StatusCode::invalid_argument, 0, operation,
                   "inside a group nothing is on its stream before the group ends, so no event can "
                   "mark its end; use all_reduce, or end the group first");
  const cudaStream_t compute = s.stream_of(op.stream);
  detail::nccl::Capture capture;
  cudaError_t error = detail::nccl::capture_of(compute, &capture);
  if (error != cudaSuccess) return s.cuda_error(error, operation, "the compute stream");
  const detail::nccl::DeviceGuard current(s.device);
  PooledEvent done(s.events, capture.is_active);
  error = done.error();
  if (error == cudaSuccess && compute != s.stream)
    error = detail::nccl::order(s, compute, s.stream, capture.is_active);
  if (error != cudaSuccess) return s.poison(s.cuda_error(error, operation, "an event"));

  Status reduced = all_reduce({op.buffer, op.buffer, op.count, op.type, op.op, Stream(s.stream)});
  // What forked off a capture has to come back to it, whatever became of the operation.
  error = cudaEventRecord(done.get(), s.stream);
  if (error != cudaSuccess && reduced.ok())
    return s.poison(s.cuda_error(error, operation, "cudaEventRecord"));
  if (!reduced.ok()) {
    if (capture.is_active && error == cudaSuccess && compute != s.stream)
      (void)cudaStreamWaitEvent(compute, done.get(), 0);
    return reduced;
  }
  return NcclTicket(state_, done.hand_over(), capture.is_active);
}

Status Nccl::all_reduce_async(const ops::AllReduceAsync& op) {
  Result<NcclTicket> ticket = start_all_reduce(Operation::all_reduce_async, op);
  if (!ticket.ok()) return std::move(ticket).status();
  return ticket->join(op.stream);
}

Result<NcclTicket> Nccl::all_reduce_deferred(const ops::AllReduceDeferred& op) {
  return start_all_reduce(Operation::all_reduce_deferred,
                          {op.buffer, op.count, op.type, op.op, op.stream});
}

}  // namespace comm
