#pragma once

/// The operations as a backend sees them: one struct each, with the element type erased to a
/// `DataType` and every argument checked by the typed face (`communicator.h`). Counts are elements,
/// 64 bits wide. One struct an operation lets a decorator treat them all alike: `info_of(op)` says
/// what any of them is about.
///
/// In place (NCCL, "In-place operations"): all_reduce and reduce `send == recv`; all_gather
/// `send == recv + rank * count`; reduce_scatter `recv == send + rank * count`; gather
/// `send == recv + root * count`; scatter `recv == send + root * count`. all_to_all never is.

#include <cstddef>
#include <cstdint>

#include "comm/data_type.h"
#include "comm/reduce_op.h"
#include "comm/stream.h"
#include "comm/timeout.h"

struct CUfunc_st;

namespace comm {

/// Names a registered buffer: comm's own number, the same after a reconnect. 0 is no registration.
using RegistrationHandle = std::uint64_t;

/// The color of a rank that joins none of the communicators a split makes.
inline constexpr int kNoColor = -1;

enum class Operation : std::uint8_t {
  all_reduce,
  all_reduce_async,
  all_reduce_deferred,
  all_gather,
  reduce_scatter,
  broadcast,
  broadcast_async,
  recv_command_u32,
  reduce,
  gather,
  scatter,
  all_to_all,
  all_to_all_v,
  send_to,
  recv_from,
  send_recv,
  barrier,
  barrier_wait,
  group_start,
  group_end,
  register_buffer,
  deregister_buffer,
  symmetric_alloc,
  symmetric_free,
  set_add_kernel,
  split,
  shrink,
  synchronize,
  attempt_reconnect,
  abort,
};

namespace ops {

struct AllReduce {
  static constexpr Operation operation = Operation::all_reduce;
  const void* send;
  void* recv;
  std::size_t count;
  DataType type;
  ReduceOp op;
  Stream stream;
};

struct AllReduceAsync {
  static constexpr Operation operation = Operation::all_reduce_async;
  void* buffer;
  std::size_t count;
  DataType type;
  ReduceOp op;
  Stream stream;  ///< The compute stream whose queued work comes first.
};

struct AllReduceDeferred {
  static constexpr Operation operation = Operation::all_reduce_deferred;
  void* buffer;
  std::size_t count;
  DataType type;
  ReduceOp op;
  Stream stream;  ///< The compute stream whose queued work comes first.
};

struct AllGather {
  static constexpr Operation operation = Operation::all_gather;
  const void* send;
  void* recv;         ///< `world_size * count` elements.
  std::size_t count;  ///< Elements that one rank contributes.
  DataType type;
  Stream stream;
};

struct ReduceScatter {
  static constexpr Operation operation = Operation::reduce_scatter;
  const void* send;  ///< `world_size * count` elements.
  void* recv;
  std::size_t count;  ///< Elements that one rank receives.
  DataType type;
  ReduceOp op;
  Stream stream;
};

struct Broadcast {
  static constexpr Operation operation = Operation::broadcast;
  void* buffer;
  std::size_t count;
  DataType type;
  int root;
  Stream stream;
};

struct BroadcastAsync {
  static constexpr Operation operation = Operation::broadcast_async;
  void* buffer;
  std::size_t count;
  DataType type;
  int root;
  Stream stream;
};

struct RecvCommandU32 {
  static constexpr Operation operation = Operation::recv_command_u32;
  void* buffer;  ///< One `std::uint32_t`.
  int root;
  Stream stream;
};

struct Reduce {
  static constexpr Operation operation = Operation::reduce;
  const void* send;
  void* recv;  ///< Used on `root` alone.
  std::size_t count;
  DataType type;
  ReduceOp op;
  int root;
  Stream stream;
};

struct Gather {
  static constexpr Operation operation = Operation::gather;
  const void* send;
  void* recv;         ///< `world_size * count` elements, used on `root` alone.
  std::size_t count;  ///< Elements that one rank contributes.
  DataType type;
  int root;
  Stream stream;
};

struct Scatter {
  static constexpr Operation operation = Operation::scatter;
  const void* send;  ///< `world_size * count` elements, used on `root` alone.
  void* recv;
  std::size_t count;  ///< Elements that one rank receives.
  DataType type;
  int root;
  Stream stream;
};

struct AllToAll {
  static constexpr Operation operation = Operation::all_to_all;
  const void* send;   ///< `world_size * count` elements.
  void* recv;         ///< `world_size * count` elements.
  std::size_t count;  ///< Elements from one rank to one other.
  DataType type;
  Stream stream;
};

/// Blocks lie densely in rank order, on both sides.
struct AllToAllV {
  static constexpr Operation operation = Operation::all_to_all_v;
  const void* send;
  const std::size_t* send_counts;  ///< `world_size` counts in host memory.
  void* recv;
  const std::size_t* recv_counts;  ///< `world_size` counts in host memory.
  DataType type;
  Stream stream;
};

struct SendTo {
  static constexpr Operation operation = Operation::send_to;
  const void* buffer;
  std::size_t count;
  DataType type;
  int peer;
  Stream stream;
};

struct RecvFrom {
  static constexpr Operation operation = Operation::recv_from;
  void* buffer;
  std::size_t count;
  DataType type;
  int peer;
  Stream stream;
};

struct SendRecv {
  static constexpr Operation operation = Operation::send_recv;
  const void* send;
  std::size_t send_count;
  int dest;
  void* recv;
  std::size_t recv_count;
  int source;
  DataType type;
  Stream stream;
};

struct Barrier {
  static constexpr Operation operation = Operation::barrier;
  Stream stream;
};

struct BarrierWait {
  static constexpr Operation operation = Operation::barrier_wait;
  Timeout timeout;
};

struct GroupStart {
  static constexpr Operation operation = Operation::group_start;
};

struct GroupEnd {
  static constexpr Operation operation = Operation::group_end;
};

struct RegisterBuffer {
  static constexpr Operation operation = Operation::register_buffer;
  void* buffer;
  std::size_t bytes;
};

struct DeregisterBuffer {
  static constexpr Operation operation = Operation::deregister_buffer;
  RegistrationHandle handle;
};

struct SymmetricAlloc {
  static constexpr Operation operation = Operation::symmetric_alloc;
  std::size_t bytes;
};

struct SymmetricFree {
  static constexpr Operation operation = Operation::symmetric_free;
  void* buffer;
};

struct SetAddKernel {
  static constexpr Operation operation = Operation::set_add_kernel;
  CUfunc_st* kernel;
};

struct Split {
  static constexpr Operation operation = Operation::split;
  int color;  ///< `kNoColor`: this rank joins none.
  int key;    ///< New ranks go by key, then by old rank.
};

struct Shrink {
  static constexpr Operation operation = Operation::shrink;
  const int* excluded;
  std::size_t excluded_count;
};

struct Synchronize {
  static constexpr Operation operation = Operation::synchronize;
  Stream stream;
  Timeout timeout;
};

struct AttemptReconnect {
  static constexpr Operation operation = Operation::attempt_reconnect;
};

struct Abort {
  static constexpr Operation operation = Operation::abort;
};

}  // namespace ops

/// The operation as the face spells it, for messages.
constexpr const char* to_string(Operation operation) {
  switch (operation) {
    case Operation::all_reduce: return "all_reduce";
    case Operation::all_reduce_async: return "all_reduce_async";
    case Operation::all_reduce_deferred: return "all_reduce_deferred";
    case Operation::all_gather: return "all_gather";
    case Operation::reduce_scatter: return "reduce_scatter";
    case Operation::broadcast: return "broadcast";
    case Operation::broadcast_async: return "broadcast_async";
    case Operation::recv_command_u32: return "recv_command_u32";
    case Operation::reduce: return "reduce";
    case Operation::gather: return "gather";
    case Operation::scatter: return "scatter";
    case Operation::all_to_all: return "all_to_all";
    case Operation::all_to_all_v: return "all_to_all_v";
    case Operation::send_to: return "send_to";
    case Operation::recv_from: return "recv_from";
    case Operation::send_recv: return "send_recv";
    case Operation::barrier: return "barrier";
    case Operation::barrier_wait: return "barrier_wait";
    case Operation::group_start: return "group_start";
    case Operation::group_end: return "group_end";
    case Operation::register_buffer: return "register_buffer";
    case Operation::deregister_buffer: return "deregister_buffer";
    case Operation::symmetric_alloc: return "symmetric_alloc";
    case Operation::symmetric_free: return "symmetric_free";
    case Operation::set_add_kernel: return "set_add_kernel";
    case Operation::split: return "split";
    case Operation::shrink: return "shrink";
    case Operation::synchronize: return "synchronize";
    case Operation::attempt_reconnect: return "attempt_reconnect";
    case Operation::abort: return "abort";
  }
  return "unknown";
}

/// What any operation is about, for logs, recorders and checks. Fields that an operation does not
/// have keep their defaults.
struct OperationInfo {
  Operation operation;
  DataType type = DataType::u8;
  std::size_t count = 0;
  ReduceOp op = ReduceOp::sum;
  bool reduces = false;
  int root = -1;
  int peer = -1;
  Stream stream = {};
};

template <class Op>
constexpr OperationInfo info_of(const Op& op) {
  OperationInfo info{.operation = Op::operation};
  if constexpr (requires { op.type; }) info.type = op.type;
  if constexpr (requires { op.count; }) info.count = op.count;
  if constexpr (Op::operation == Operation::recv_command_u32) {
    info.type = DataType::u32;
    info.count = 1;
  }
  if constexpr (requires { op.send_count; }) info.count = op.send_count;
  if constexpr (requires { op.bytes; }) info.count = op.bytes;
  if constexpr (requires { op.op; }) {
    info.op = op.op;
    info.reduces = true;
  }
  if constexpr (requires { op.root; }) info.root = op.root;
  if constexpr (requires { op.peer; }) info.peer = op.peer;
  if constexpr (requires { op.dest; }) info.peer = op.dest;
  if constexpr (requires { op.stream; }) info.stream = op.stream;
  return info;
}

}  // namespace comm
