// A decode step that calls every operation of a SingleGpu communicator, heeds every outcome, and
// goes on with every result. no_operation.cc is the same step without comm; codegen_test holds their
// object code to be the same.

#include "comm/backends/single_gpu.h"
#include "comm/communicator.h"

namespace engine {

void compute(const float* weights, float* activations, std::size_t count);

namespace {

using comm::DeviceSpan, comm::ReduceOp, comm::Stream;
using Communicator = comm::Communicator<comm::SingleGpu>;

bool reduces(Communicator& c, DeviceSpan<float> a, DeviceSpan<float> b, Stream stream) {
  if (!c.all_reduce(a, ReduceOp::sum, stream).ok()) return false;
  if (!c.all_reduce(a, ReduceOp::prod, stream).ok()) return false;
  if (!c.all_reduce(a, ReduceOp::min, stream).ok()) return false;
  if (!c.all_reduce(a, ReduceOp::max, stream).ok()) return false;
  if (!c.all_reduce(a, ReduceOp::avg, stream).ok()) return false;
  if (c.all_reduce(a, ReduceOp::premul_sum(0.5), stream).ok()) return false;
  if (!c.all_reduce_async(a, ReduceOp::sum, stream).ok()) return false;
  auto ticket = c.all_reduce_deferred(a, ReduceOp::sum, stream);
  return ticket.ok() && ticket->join(stream).ok() && c.reduce(a, b, ReduceOp::sum, 0, stream).ok();
}

bool sends(Communicator& c, DeviceSpan<float> a, Stream stream) {
  comm::Group group = c.group();
  if (!c.send_to(a, 0, stream).ok() || !c.recv_from(a, 0, stream).ok()) return false;
  return group.end().ok() && c.group_start().ok() && c.group_end().ok();
}

bool manages(Communicator& c, DeviceSpan<float> a, DeviceSpan<std::uint32_t> command,
             Stream stream) {
  if (!c.broadcast(a, 0, stream).ok() || !c.broadcast_async(a, 0, stream).ok()) return false;
  if (c.recv_command_u32(command, 0, stream).ok()) return false;
  if (!c.barrier(stream).ok() || !c.barrier_wait().ok() || !c.synchronize(stream).ok())
    return false;
  auto handle = c.register_buffer(a);
  if (!handle.ok() || *handle != 0 || !c.deregister_buffer(*handle).ok()) return false;
  if (!c.registered(a).ok()) return false;
  if (c.symmetric_alloc(64).ok() || c.symmetric_free(a.data()).ok()) return false;
  if (c.symmetric_buffer<float>(16).ok() || !c.set_add_kernel(nullptr).ok()) return false;
  if (!c.split(0, 0).ok() || !c.shrink({1}).ok()) return false;
  if (!c.attempt_reconnect().ok() || !c.abort().ok() || !c.is_healthy()) return false;
  return c.rank() == 0 && c.world_size() == 1 && c.epoch() == 0;
}

}  // namespace

/// Where the activations are after the step; null after a failure.
const float* decode_step(const float* weights, float* a, float* b, std::size_t count,
                         std::uint32_t* command, CUstream_st* stream) {
  auto made = Communicator::create();
  if (!made.ok()) return nullptr;
  Communicator& c = *made;
  DeviceSpan<float> send(a, count), recv(b, count);
  compute(weights, a, count);
  if (!reduces(c, send, recv, stream) || !sends(c, send, stream)) return nullptr;
  auto gathered = c.all_gather(send, recv, stream);
  if (!gathered.ok()) return nullptr;
  compute(weights, gathered->data(), gathered->size());
  auto scattered = c.reduce_scatter(*gathered, recv, ReduceOp::sum, stream);
  if (!scattered.ok()) return nullptr;
  auto rooted = c.gather(*scattered, recv, 0, stream);
  if (!rooted.ok()) return nullptr;
  auto spread = c.scatter(*rooted, recv, 0, stream);
  if (!spread.ok()) return nullptr;
  auto turned = c.all_to_all(*spread, recv, stream);
  if (!turned.ok()) return nullptr;
  auto turned_v = c.all_to_all_v(*turned, &count, recv, &count, stream);
  if (!turned_v.ok()) return nullptr;
  auto passed = c.send_recv(*turned_v, 0, recv, 0, stream);
  if (!passed.ok()) return nullptr;
  auto reduced = c.all_reduce(*passed, recv, ReduceOp::sum, stream);
  if (!reduced.ok()) return nullptr;
  if (!manages(c, *reduced, DeviceSpan(command, 1), stream)) return nullptr;
  compute(weights, reduced->data(), reduced->size());
  return reduced->data();
}

}  // namespace engine
