#pragma once

/// How NCCL's communicators come to be, none of it without a deadline. A communicator is always
/// initialised non-blocking, since only then can an initialisation be given up by the book. Where
/// the mode is blocking, a blocking one is split off it (a non-blocking parent splits in the
/// background) and the first is destroyed: so initialisation can be abandoned at any point, and yet
/// no submission makes NCCL start a thread.

#include "comm/backends/nccl/state.h"

namespace comm::detail::nccl {

ncclConfig_t native_config(const NcclConfig& config, bool blocking);

/// A native communicator that NCCL fills in, perhaps late and from a thread of its own.
struct Slot {
  ncclComm_t comm = nullptr;
  ncclResult_t result = ncclSuccess;
};

/// Makes `call` fill a slot on the device of `state`, then waits until `watched` (the slot's own
/// communicator where null) is no longer in progress. On failure nothing is left behind. With
/// `even_failed` the errors of `watched` are not looked at, only whether it is done.
Result<ncclComm_t> make_native(State& state, Operation operation, const Deadline& deadline,
                               ncclComm_t watched, const char* name,
                               std::function<ncclResult_t(ncclComm_t*)> call,
                               bool even_failed = false);

/// Destroys or aborts a communicator that nobody else knows.
void discard(State& state, ncclComm_t native, bool in_good_order, const Deadline& deadline);

}  // namespace comm::detail::nccl
