#pragma once

/// What can go wrong in the product of operations and faults, and what has to come of it.

#include <string>

#include "comm/testing/simulated/faults.h"
#include "tests/health/operations.h"

namespace comm::test {

enum class Trouble {
  none,
  delay,        // the operation starts late
  in_progress,  // NCCL answers "in progress" for a while
  fails,        // NCCL's call fails
  async_error,  // the operation fails when the call is over
  never_ends,   // what was enqueued never completes
  blocks,       // NCCL's call does not return
  peer_dies,    // a rank says nothing more to its peers: silent, as within a host
  lost_event,   // an event is not recorded
  cuda_fails,   // a CUDA call of the wait fails
  other_call,   // a rank calls something else
  absent,       // a rank does not call
  aborts,       // a rank calls abort instead
  leaves,       // a rank ends its communicator instead
};
inline constexpr int kTroubles = 14;

constexpr const char* name_of(Trouble trouble) {
  constexpr const char* kNames[kTroubles] = {
      "none",       "delay",       "in progress", "NCCL fails", "async error",
      "never ends", "call blocks", "peer dies",   "lost event", "CUDA fails",
      "other call", "absent",      "aborts",      "leaves"};
  return kNames[static_cast<int>(trouble)];
}

/// Nothing may come of these.
constexpr bool is_harmless(Trouble t) {
  return t == Trouble::none || t == Trouble::delay || t == Trouble::in_progress;
}

/// The call of NCCL in which a fault is to happen.
inline const char* native_call(Kind kind, int world, std::size_t bytes) {
  const bool exchanged = world == 2 ? bytes <= 8192 : bytes <= 1024;
  switch (kind) {
    case Kind::all_reduce:
    case Kind::all_reduce_async:
    case Kind::all_reduce_deferred: return exchanged ? "ncclSend" : "ncclAllReduce";
    case Kind::all_reduce_max:
    case Kind::group:
    case Kind::barrier:
    case Kind::barrier_wait: return "ncclAllReduce";
    case Kind::all_gather: return "ncclAllGather";
    case Kind::reduce_scatter: return "ncclReduceScatter";
    case Kind::broadcast:
    case Kind::broadcast_async:
    case Kind::recv_command_u32: return "ncclBroadcast";
    case Kind::reduce: return "ncclReduce";
    case Kind::gather: return "ncclGather";
    case Kind::scatter: return "ncclScatter";
    case Kind::all_to_all: return "ncclAlltoAll";
    case Kind::all_to_all_v:
    case Kind::send_recv:
    case Kind::send_to_recv_from: return "ncclSend";
  }
  return "";
}

/// Whether the fault makes sense there.
inline bool applies(Kind kind, Trouble trouble, bool captured) {
  // A pair of messages has no call that all ranks make.
  if (kind == Kind::send_to_recv_from && trouble != Trouble::none && trouble != Trouble::absent &&
      trouble != Trouble::aborts && trouble != Trouble::leaves)
    return false;
  // Who waits for a command waits for as long as no rank is known to have failed.
  if (kind == Kind::recv_command_u32 &&
      (trouble == Trouble::never_ends || trouble == Trouble::blocks ||
       trouble == Trouble::peer_dies || trouble == Trouble::absent))
    return false;
  if (!captured) return true;
  if (waits(kind)) return false;
  // A captured call only records; what happens to it happens at the launch.
  return trouble != Trouble::in_progress && trouble != Trouble::cuda_fails &&
         trouble != Trouble::lost_event;
}

/// Injects what is to be injected. False: the rank itself does it.
inline bool inject(Trouble trouble, const char* call, int rank) {
  using simulated::FaultAction;
  simulated::Fault fault{call, 1, rank, FaultAction::fail, 0};
  switch (trouble) {
    case Trouble::delay:
      fault.action = FaultAction::delay;
      fault.value = 20;
      break;
    case Trouble::in_progress:
      fault.action = FaultAction::in_progress;
      fault.value = 5;
      break;
    case Trouble::fails: fault.value = 2; break;  // ncclSystemError
    case Trouble::async_error:
      fault.action = FaultAction::async_error;
      fault.value = 6;
      break;
    case Trouble::never_ends: fault.action = FaultAction::never_finish; break;
    case Trouble::blocks: fault.action = FaultAction::block; break;
    case Trouble::peer_dies: fault.action = FaultAction::vanish; break;
    case Trouble::lost_event:
      fault.call = "cudaEventRecord";
      fault.action = FaultAction::lose;
      break;
    case Trouble::cuda_fails:
      fault.nth = 0;
      fault.call = "cudaEventQuery";
      fault.value = 700;
      break;
    default: return false;
  }
  simulated::inject(fault);
  return true;
}

}  // namespace comm::test
