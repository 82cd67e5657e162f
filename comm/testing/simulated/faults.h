#pragma once

/// Faults: what a named call, counted per rank, shall do instead of its work.
///
///     comm::simulated::inject({.call = "ncclAllReduce", .nth = 3, .rank = 1,
///                              .action = FaultAction::fail, .value = ncclSystemError});
///
/// The same by environment, read when the process first touches the simulation; faults are
/// separated by semicolons, and each is `call[@nth][,rank=N]:action[=value]`:
///
///     COMM_SIM_FAULTS="ncclAllReduce@3,rank=1:fail=2;cudaMalloc@2:fail=2;cudaEventRecord:lose"
///
/// Calls without a communicator count on their CUDA device: `rank` is then the current device.
/// A fault fires once, at the nth such call after it was injected (1 is the next); nth 0 fires at
/// every call. Thread-safe.

#include <cstdint>
#include <string>
#include <string_view>

#include "comm/language.h"

namespace comm::simulated {

enum class FaultAction {
  fail,           // returns `value` now (a cudaError_t, CUresult or ncclResult_t); nothing is done
  async_error,    // the call succeeds; later the communicator's async error is `value`, work stops
  in_progress,    // the communicator stays ncclInProgress for `value` polls more
  never_finish,   // the call succeeds; what it enqueued never completes (until an abort)
  delay,          // the operation starts `value` milliseconds late (a call that enqueues nothing
                  // returns that late)
  lose,           // the call returns success and does nothing: a lost event
  block,          // the host call does not return until the communicator is aborted
  kill,           // SIGKILL to this process
  vanish,         // this rank says nothing more to its peers: a killed peer, for ranks as threads
  unload_driver,  // from now on every call answers cudaErrorCudartUnloading
};

struct Fault {
  std::string call;
  int nth = 1;
  int rank = -1;  // -1: any
  FaultAction action = FaultAction::fail;
  std::int64_t value = 0;
};

void inject(const Fault& fault);

/// Reads the text form above. False, with the words that were not understood in `*why`, when it is
/// malformed; the faults before that place are injected.
bool inject(std::string_view text, std::string* why);

/// Forgets the faults not fired yet, and loads the driver again.
void clear_faults();

/// How many faults have fired.
int faults_fired();

/// Every later CUDA call answers cudaErrorCudartUnloading, as when a static destructor runs after
/// the runtime's. A NCCL call that would need CUDA is reported as bad usage.
void unload_driver();

namespace detail {

/// What is to happen to this call. At most one fault fires per call.
struct FaultDecision {
  bool fired = false;
  FaultAction action{};
  std::int64_t value = 0;

  bool is(FaultAction wanted) const { return fired && action == wanted; }
};

FaultDecision decide_fault(const char* call, int rank);
bool driver_unloaded();

}  // namespace detail
}  // namespace comm::simulated
