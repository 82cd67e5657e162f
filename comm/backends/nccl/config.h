#pragma once

/// `NcclConfig` is what a communicator over NCCL may be told. The default is right for most: who
/// is who comes from the launcher's environment, the GPU is that of the local rank. All ranks must
/// agree on what decides how data moves (mode, receive buffer, one-shot limits): the rendezvous
/// compares it and names what differs.
///
///     comm::NcclConfig config;
///     config.collective_timeout = std::chrono::seconds(30);
///     auto communicator = comm::Communicator<comm::Nccl>::create(config);

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "comm/launch/launch_config.h"
#include "comm/log.h"
#include "comm/wait_policy.h"

namespace comm {

/// How NCCL's communicator is run; docs/nccl.md says which promise each keeps, and why.
enum class NcclMode : std::uint8_t {
  blocking,      ///< NCCL enqueues in the calling thread; a watchdog frees a call that is overdue.
  non_blocking,  ///< NCCL starts a thread for each submission; every call can be given up at once.
};

struct NcclConfig {
  std::optional<LaunchConfig> launch;  ///< None: as the environment says.

  int device = -1;  ///< The CUDA device; -1: that of `launch.local_rank`.
  NcclMode mode = NcclMode::blocking;

  /// For one submission, and for the waits of `broadcast`, `barrier_wait` and `synchronize` that
  /// name no timeout.
  std::chrono::milliseconds collective_timeout{5 * 60 * 1000};
  std::chrono::milliseconds reconnect_timeout{2 * 60 * 1000};  ///< For all ranks to have come back.
  std::chrono::milliseconds close_timeout{30 * 1000};  ///< For what is queued, when closing.
  std::chrono::milliseconds abort_timeout{10 * 1000};  ///< For NCCL to give up.

  /// After a failure NCCL's communicator is aborted at once, which ends kernels that wait for a peer
  /// (and would block every cudaFree). False keeps it, so that NCCL itself can shrink it, until it is
  /// aborted.
  bool abort_on_failure = true;

  /// Two ranks exchange sums up to this many bytes directly and add with comm's kernel (or the
  /// engine's own); larger ones go to NCCL's all-reduce. 0: always NCCL's. Allocated twice, once
  /// for graphs.
  std::size_t receive_buffer_bytes = std::size_t{4} << 20;

  /// Three and more ranks do the same up to this many bytes a rank, and add in rank order. 0: never.
  std::size_t one_shot_bytes = std::size_t{32} << 10;
  int one_shot_max_ranks = 8;  ///< In larger worlds always NCCL's.

  /// Bounds on the GPU's blocks that NCCL uses; 0 leaves them to NCCL. Each needs the other.
  int min_ctas = 0;
  int max_ctas = 0;

  /// How the host waits for the GPU.
  WaitPolicy waiting;

  /// A wait of the host that takes this long is said in the log.
  std::chrono::milliseconds slow_wait{10 * 1000};

  /// Receives log lines, one at a time, from any thread; stderr where empty.
  std::function<void(std::string_view)> log;
  std::optional<LogLevels> log_levels;  ///< None: as COMM_LOG says.

  /// Refuses what cannot be meant.
  Status validate() const;
};

}  // namespace comm
