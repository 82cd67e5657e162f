#include "comm/backends/nccl/goodbye.h"

#include <atomic>
#include <memory>

#include "comm/backends/nccl/bounded.h"
#include "comm/backends/nccl/native.h"

namespace comm::detail::nccl {
namespace {

/// Shared by the thread that finalizes and the one that may run out of patience. Whoever moves the
/// phase on from `finalizing` ends the communicator; the other does not touch it any more.
struct Goodbye {
  enum Phase { finalizing, ending, given_up };

  Parting parting;
  std::atomic<Phase> phase{finalizing};
  ncclResult_t result = ncclSuccess;

  bool move_on(Phase to) {
    Phase from = finalizing;
    return phase.compare_exchange_strong(from, to);
  }

  void run() {
    (void)cudaSetDevice(parting.device);
    for (void* handle : parting.registrations) (void)deregister_buffer(parting.comm, handle);
    for (void* window : parting.windows) (void)window_deregister(parting.comm, window);
    ncclResult_t state = ncclCommFinalize(parting.comm);
    Pause pause;
    while (phase.load() == finalizing && (state == ncclSuccess || state == ncclInProgress)) {
      if (ncclCommGetAsyncError(parting.comm, &state) != ncclSuccess) state = ncclInternalError;
      if (state != ncclInProgress) break;
      pause.once_more();
    }
    if (!move_on(ending)) return;
    result = state;
    if (state == ncclSuccess)
      result = ncclCommDestroy(parting.comm);
    else
      (void)ncclCommAbort(parting.comm);
  }
};

}  // namespace

Parted part_by_abort(ncclComm_t comm, int device, std::chrono::milliseconds abort_timeout) {
  if (comm == nullptr) return Parted::aborted;
  const Bounded went = run_bounded(Deadline(abort_timeout), [comm, device] {
    (void)cudaSetDevice(device);
    (void)ncclCommAbort(comm);
  });
  return went == Bounded::finished ? Parted::aborted : Parted::stuck;
}

Parted part_in_order(const Parting& parting, const Deadline& deadline,
                     std::chrono::milliseconds abort_timeout, ncclResult_t* result) {
  auto goodbye = std::make_shared<Goodbye>();
  goodbye->parting = parting;
  const Bounded went = run_bounded(deadline, [goodbye] { goodbye->run(); });
  if (went == Bounded::finished) {
    *result = goodbye->result;
    return goodbye->result == ncclSuccess ? Parted::in_order : Parted::aborted;
  }
  if (!goodbye->move_on(Goodbye::given_up)) return Parted::stuck;
  return part_by_abort(parting.comm, parting.device, abort_timeout);
}

}  // namespace comm::detail::nccl
