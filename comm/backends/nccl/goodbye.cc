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
  LateEnd has_ended = std::make_shared<std::atomic<bool>>(false);
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
    has_ended->store(true);
  }
};

}  // namespace

Parted part_by_abort(ncclComm_t comm, int device, std::chrono::milliseconds abort_timeout,
                     LateEnd* late) {
  if (comm == nullptr) return Parted::aborted;
  auto has_ended = std::make_shared<std::atomic<bool>>(false);
  const Bounded went = run_bounded(Deadline(abort_timeout), [comm, device, has_ended] {
    (void)cudaSetDevice(device);
    (void)ncclCommAbort(comm);
    has_ended->store(true);
  });
  if (went == Bounded::finished) return Parted::aborted;
  if (late != nullptr) *late = std::move(has_ended);
  return Parted::stuck;
}

Parted part_in_order(const Parting& parting, const Deadline& deadline,
                     std::chrono::milliseconds abort_timeout, ncclResult_t* result, LateEnd* late) {
  auto goodbye = std::make_shared<Goodbye>();
  goodbye->parting = parting;
  const Bounded went = run_bounded(deadline, [goodbye] { goodbye->run(); });
  if (went == Bounded::finished) {
    *result = goodbye->result;
    return goodbye->result == ncclSuccess ? Parted::in_order : Parted::aborted;
  }
  if (!goodbye->move_on(Goodbye::given_up)) {
    if (late != nullptr) *late = goodbye->has_ended;
    return Parted::stuck;
  }
  return part_by_abort(parting.comm, parting.device, abort_timeout, late);
}

}  // namespace comm::detail::nccl
