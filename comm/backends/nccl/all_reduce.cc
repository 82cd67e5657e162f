#include "comm/backends/nccl.h"
#include "comm/backends/nccl/add_kernel.h"
#include "comm/backends/nccl/submit.h"
#include "comm/kernels/sum.h"

namespace comm {
namespace detail::nccl {
namespace {

/// Whether the ranks exchange their contributions and add them up themselves: small sums of types
/// that there is a kernel for. The same on every rank, since it hangs on what all ranks pass alike.
bool takes_detour(const State& s, const ops::AllReduce& op) {
  return op.count > 0 && op.op.kind() == ReduceOp::Kind::sum && kernels::has_sum(op.type) &&
         op.count <= s.detour_counts[static_cast<int>(op.type)];
}

/// Every rank's contribution to every other, in one group: neither waits for the other to receive.
Status exchange(Entry& call, const State& s, const ops::AllReduce& op, std::byte* received,
                std::size_t stride_bytes, cudaStream_t stream) {
  ncclResult_t result = ncclGroupStart();
  if (result != ncclSuccess) return call.settle(result, "ncclGroupStart");
  for (int r = 0; r < s.world_size; ++r) {
    if (r == s.rank) continue;
    std::byte* const block = received + static_cast<std::size_t>(r) * stride_bytes;
    if (result == ncclSuccess)
      result = ncclSend(op.send, op.count, native(op.type), r, call.comm(), stream);
    if (result == ncclSuccess)
      result = ncclRecv(block, op.count, native(op.type), r, call.comm(), stream);
  }
  const ncclResult_t ended =
      ncclGroupEnd();  // Also after a failure, or all later calls would wait.
  return call.settle(result == ncclSuccess ? ended : result, "the exchange of contributions");
}

Status add_up(State& s, const ops::AllReduce& op, const std::byte* received,
              std::size_t stride_bytes, cudaStream_t stream) {
  const DeviceGuard current(s.device);
  CUfunc_st* const engines = s.add_kernel.load(std::memory_order_acquire);
  const std::byte* const peers = received + static_cast<std::size_t>(1 - s.rank) * stride_bytes;
  if (s.world_size == 2 && op.type == DataType::bf16 && engines != nullptr)
    return add_with(engines, op, peers, stream);
  if (s.world_size == 2 && op.send == op.recv)
    return kernels::add_inplace(op.type, op.recv, peers, op.count, Stream(stream));
  return kernels::add_rank_sum(
      op.type,
      {op.recv, op.send, received, stride_bytes / size_of(op.type), s.rank, s.world_size, op.count},
      Stream(stream));
}

Status all_reduce_by_exchange(State& s, const ops::AllReduce& op, const Capture& capture,
                              Entry& call) {
  const cudaStream_t stream = s.stream_of(op.stream);
  Scratch& scratch = s.receive[capture.is_active ? 1 : 0];
  // Two ranks: one block of all there is, for the only peer. More: one for each rank.
  const std::size_t stride_bytes =
      s.world_size == 2 ? 0 : scratch.bytes() / static_cast<std::size_t>(s.world_size) / 16 * 16;

  cudaError_t error = scratch.begin(stream, capture);
  if (error != cudaSuccess)
    return s.poison(s.cuda_error(error, Operation::all_reduce, "cudaStreamWaitEvent"));
  Status done = exchange(call, s, op, scratch.memory(), stride_bytes, stream);
  if (!done.ok()) return done;
  done = add_up(s, op, scratch.memory(), stride_bytes, stream);
  if (!done.ok())
    return s.poison(
        s.error(done.code(), done.native_code(), Operation::all_reduce, "%s", done.message()));
  error = scratch.end(stream, capture);
  if (error != cudaSuccess)
    return s.poison(s.cuda_error(error, Operation::all_reduce, "cudaEventRecord"));
  return {};
}

}  // namespace
}  // namespace detail::nccl

using detail::nccl::CallOp;
using detail::nccl::Entry;

Status Nccl::finish_all_reduce(ncclResult_t result, ncclComm_t comm) {
  return Entry::inside(*state_, Operation::all_reduce, comm).settle(result, "ncclAllReduce");
}

Status Nccl::all_reduce_otherwise(const ops::AllReduce& op) {
  auto& s = *state_;
  if (!s.is_open()) return s.refuse(Operation::all_reduce);
  Status sound = detail::nccl::check_type(s, Operation::all_reduce, op.type);
  if (sound.ok()) sound = detail::nccl::check_stream(s, Operation::all_reduce, op.stream);
  if (!sound.ok()) return sound;
  // Inside a group nothing is exchanged before the group ends, so nothing could be added.
  const bool detour = detail::nccl::open_groups() == 0 && detail::nccl::takes_detour(s, op);
  detail::nccl::Capture capture;
  // Before the call counts as submitted, which a stream that is none would only seem to be.
  const cudaError_t found =
      detour ? detail::nccl::capture_of(s.stream_of(op.stream), &capture) : cudaSuccess;
  if (found != cudaSuccess) return s.cuda_error(found, Operation::all_reduce, "the stream");
  Entry call(s, Operation::all_reduce);
  if (!call.ok()) return call.take();
  if (detour) return detail::nccl::all_reduce_by_exchange(s, op, capture, call);
  const CallOp reduction(op.op, op.type, call.comm());
  if (reduction.result() != ncclSuccess)
    return call.settle(reduction.result(), "ncclRedOpCreatePreMulSum");
  return call.settle(ncclAllReduce(op.send, op.recv, op.count, detail::nccl::native(op.type),
                                   reduction.get(), call.comm(), s.stream_of(op.stream)),
                     "ncclAllReduce");
}

Status Nccl::set_add_kernel(const ops::SetAddKernel& op) {
  auto& s = *state_;
  if (op.kernel != nullptr) {
    Status can = detail::nccl::can_add_with_kernels();
    if (!can.ok()) return s.located(std::move(can), Operation::set_add_kernel);
  }
  s.add_kernel.store(op.kernel, std::memory_order_release);
  return {};
}

}  // namespace comm
