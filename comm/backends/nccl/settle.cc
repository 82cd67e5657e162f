#include <utility>

#include "comm/backends/nccl/native.h"
#include "comm/backends/nccl/state.h"

namespace comm::detail::nccl {
namespace {

/// `ncclRemoteError` says that a peer failed; the peer says why, on the channel, a moment later.
Status ask_peers_why(State& state, Operation operation, Status failure) {
  const Deadline moment(std::chrono::milliseconds(500));
  Pause pause;
  while (state.channel != nullptr && !state.ignores_channel && !moment.passed()) {
    Status heard = state.channel->check();
    if (!heard.ok())
      return state.error(heard.code(), heard.native_code(), operation, "%s", heard.message());
    pause.once_more();
  }
  return failure;
}

}  // namespace

Status State::settle(ncclComm_t native, Operation operation, const Deadline& deadline) {
  Pause pause;
  for (;;) {
    ncclResult_t result = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(native, &result);
    if (asked != ncclSuccess) return poison(nccl_error(asked, operation, "ncclCommGetAsyncError"));
    if (result == ncclSuccess) return {};
    if (result != ncclInProgress) {
      Status failure = nccl_error(result, operation, "an operation under way");
      if (result == ncclRemoteError) failure = ask_peers_why(*this, operation, std::move(failure));
      return poison(std::move(failure));
    }
    if (deadline.passed())
      return poison_and_name(
          error(StatusCode::timeout, 0, operation,
                "NCCL is still in progress after %lld ms; a rank may be missing, or may "
                "have called another operation",
                deadline.length_ms()));
    if (!pause.once_more()) continue;
    if (channel != nullptr && !ignores_channel) {
      Status heard = channel->check();
      if (!heard.ok())
        return poison_and_name(
            error(heard.code(), heard.native_code(), operation, "%s", heard.message()));
    }
    if (comm.load(std::memory_order_acquire) == native && !is_open()) return first_cause(true);
  }
}

}  // namespace comm::detail::nccl
