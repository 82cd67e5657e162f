#include "comm/backends/nccl.h"
#include "comm/backends/nccl/submit.h"

namespace comm {
namespace detail::nccl {
namespace {

/// Sends and receives of one call, in one group of NCCL's. The group closes on every path, and the
/// first failure is what comes of it.
class Messages {
 public:
  Messages(Entry& call, DataType type, cudaStream_t stream)
      : comm_(call.comm()),
        type_(native_to_move(type)),
        size_(size_of(type)),
        stream_(stream),
        result_(ncclGroupStart()),
        is_open_(result_ == ncclSuccess) {}
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;
  ~Messages() { (void)end(); }

  /// `offset` is in elements.
  void send(const void* from, std::size_t offset, std::size_t count, int peer) {
    if (result_ != ncclSuccess) return;
    result_ = ncclSend(static_cast<const std::byte*>(from) + offset * size_, count, type_, peer,
                       comm_, stream_);
  }
  void recv(void* to, std::size_t offset, std::size_t count, int peer) {
    if (result_ != ncclSuccess) return;
    result_ =
        ncclRecv(static_cast<std::byte*>(to) + offset * size_, count, type_, peer, comm_, stream_);
  }

  ncclResult_t end() {
    if (!is_open_) return result_;
    is_open_ = false;
    const ncclResult_t ended = ncclGroupEnd();
    if (result_ == ncclSuccess) result_ = ended;
    return result_;
  }

 private:
  ncclComm_t comm_;
  ncclDataType_t type_;
  std::size_t size_;
  cudaStream_t stream_;
  ncclResult_t result_;
  bool is_open_;
};

std::size_t block(int rank, std::size_t count) {
  return static_cast<std::size_t>(rank) * count;
}

}  // namespace
}  // namespace detail::nccl

using detail::nccl::block;
using detail::nccl::Entry;
using detail::nccl::Messages;
using detail::nccl::native_to_move;
using detail::nccl::submit;

Status Nccl::gather(const ops::Gather& op) {
  auto& s = *state_;
  Status sound = detail::nccl::check_stream(s, Operation::gather, op.stream);
  if (!sound.ok()) return sound;
  Entry call(s, Operation::gather);
  if (!call.ok()) return call.take();
  const cudaStream_t stream = s.stream_of(op.stream);
  if (detail::nccl::has_native_all_to_all())
    return call.settle(detail::nccl::gather(op.send, op.recv, op.count, native_to_move(op.type),
                                            op.root, call.comm(), stream),
                       "ncclGather");
  Messages messages(call, op.type, stream);
  const auto* in_place =
      static_cast<std::byte*>(op.recv) + block(op.root, op.count) * size_of(op.type);
  const bool is_there = s.rank == op.root && op.send == in_place;
  if (!is_there) messages.send(op.send, 0, op.count, op.root);
  for (int r = 0; s.rank == op.root && r < s.world_size; ++r)
    if (r != s.rank || !is_there) messages.recv(op.recv, block(r, op.count), op.count, r);
  return call.settle(messages.end(), "a grouped gather");
}

Status Nccl::scatter(const ops::Scatter& op) {
  auto& s = *state_;
  Status sound = detail::nccl::check_stream(s, Operation::scatter, op.stream);
  if (!sound.ok()) return sound;
  Entry call(s, Operation::scatter);
  if (!call.ok()) return call.take();
  const cudaStream_t stream = s.stream_of(op.stream);
  if (detail::nccl::has_native_all_to_all())
    return call.settle(detail::nccl::scatter(op.send, op.recv, op.count, native_to_move(op.type),
                                             op.root, call.comm(), stream),
                       "ncclScatter");
  Messages messages(call, op.type, stream);
  const auto* in_place =
      static_cast<const std::byte*>(op.send) + block(op.root, op.count) * size_of(op.type);
  const bool is_there = s.rank == op.root && op.recv == in_place;
  for (int r = 0; s.rank == op.root && r < s.world_size; ++r)
    if (r != s.rank || !is_there) messages.send(op.send, block(r, op.count), op.count, r);
  if (!is_there) messages.recv(op.recv, 0, op.count, op.root);
  return call.settle(messages.end(), "a grouped scatter");
}

Status Nccl::all_to_all(const ops::AllToAll& op) {
  auto& s = *state_;
  Status sound = detail::nccl::check_stream(s, Operation::all_to_all, op.stream);
  if (!sound.ok()) return sound;
  Entry call(s, Operation::all_to_all);
  if (!call.ok()) return call.take();
  const cudaStream_t stream = s.stream_of(op.stream);
  if (detail::nccl::has_native_all_to_all())
    return call.settle(detail::nccl::all_to_all(op.send, op.recv, op.count, native_to_move(op.type),
                                                call.comm(), stream),
                       "ncclAlltoAll");
  Messages messages(call, op.type, stream);
  for (int r = 0; r < s.world_size; ++r) {
    messages.send(op.send, block(r, op.count), op.count, r);
    messages.recv(op.recv, block(r, op.count), op.count, r);
  }
  return call.settle(messages.end(), "a grouped all-to-all");
}

Status Nccl::all_to_all_v(const ops::AllToAllV& op) {
  auto& s = *state_;
  if (op.send_counts[s.rank] != op.recv_counts[s.rank])
    return s.error(StatusCode::invalid_argument, 0, Operation::all_to_all_v,
                   "this rank sends itself %zu elements and expects %zu from itself",
                   op.send_counts[s.rank], op.recv_counts[s.rank]);
  Status sound = detail::nccl::check_stream(s, Operation::all_to_all_v, op.stream);
  if (!sound.ok()) return sound;
  Entry call(s, Operation::all_to_all_v);
  if (!call.ok()) return call.take();
  Messages messages(call, op.type, s.stream_of(op.stream));
  std::size_t sent = 0;
  std::size_t received = 0;
  for (int r = 0; r < s.world_size; ++r) {
    // Nothing is exchanged where there is nothing: both sides know the count.
    if (op.send_counts[r] > 0) messages.send(op.send, sent, op.send_counts[r], r);
    if (op.recv_counts[r] > 0) messages.recv(op.recv, received, op.recv_counts[r], r);
    sent += op.send_counts[r];
    received += op.recv_counts[r];
  }
  return call.settle(messages.end(), "a grouped all-to-all");
}

Status Nccl::send_to(const ops::SendTo& op) {
  auto& s = *state_;
  Status sound = detail::nccl::check_peer(s, Operation::send_to, op.peer);
  if (!sound.ok()) return sound;
  return submit(s, op, "ncclSend",
                [&](ncclComm_t comm, cudaStream_t stream) {
                  return ncclSend(op.buffer, op.count, native_to_move(op.type), op.peer, comm,
                                  stream);
                },
                {.to = op.peer});
}

Status Nccl::recv_from(const ops::RecvFrom& op) {
  auto& s = *state_;
  Status sound = detail::nccl::check_peer(s, Operation::recv_from, op.peer);
  if (!sound.ok()) return sound;
  return submit(s, op, "ncclRecv",
                [&](ncclComm_t comm, cudaStream_t stream) {
                  return ncclRecv(op.buffer, op.count, native_to_move(op.type), op.peer, comm,
                                  stream);
                },
                {.from = op.peer});
}

Status Nccl::send_recv(const ops::SendRecv& op) {
  auto& s = *state_;
  Status sound;
  const bool to_itself = op.dest == s.rank;
  const bool from_itself = op.source == s.rank;
  if (to_itself != from_itself || (to_itself && op.send_count != op.recv_count))
    return s.error(StatusCode::invalid_argument, 0, Operation::send_recv,
                   "a rank that sends to itself must receive from itself, and as much: dest %d, "
                   "source %d, sends %zu, receives %zu",
                   op.dest, op.source, op.send_count, op.recv_count);
  sound = detail::nccl::check_stream(s, Operation::send_recv, op.stream);
  if (!sound.ok()) return sound;
  Entry call(s, Operation::send_recv);
  if (!call.ok()) return call.take();
  call.set_peers({op.dest, op.source});
  Messages messages(call, op.type, s.stream_of(op.stream));
  messages.send(op.send, 0, op.send_count, op.dest);
  messages.recv(op.recv, 0, op.recv_count, op.source);
  return call.settle(messages.end(), "a grouped send and receive");
}

}  // namespace comm
