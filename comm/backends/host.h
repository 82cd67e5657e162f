#pragma once

/// `Host` is a communicator for ranks on one machine, over shared memory: processes started by any
/// launcher, or threads of one process. It needs no GPU, no driver and no MPI, and moves host memory
/// only. Every operation has ended when it returns, so streams do not matter to it.
///
///     comm::Host::Config config;                       // as the launcher's environment says
///     auto made = comm::Communicator<comm::Host>::create(config);
///
/// Numbers: 16- and 8-bit floats are reduced in FP32, in rank order, and rounded once; integers wrap;
/// results are bit-identical on every rank. Memory: about 2 MiB for 2 ranks, 50 MiB for 64, in an
/// anonymous file that counts against no /dev/shm and that no crash leaves behind.
///
/// Failures: every collective meets all ranks, so ranks that make different calls all get `mismatch`
/// with both calls in the message; a rank whose process ends is `peer_lost`, by name, within a
/// fraction of a second wherever others wait for it; a rank that is late is `timeout` after
/// `collective_timeout`. The first cause is told to all ranks and stands until `attempt_reconnect`
/// succeeds. The child of a `fork` cannot use its copy and is told so.
///
/// Waiting spins for some microseconds, then yields, then sleeps in the kernel until it is woken
/// (`Config::waiting`): a rank may wait in `recv_command_u32` for hours and use no processor.
///
/// Symmetric memory: collectives on buffers from `symmetric_alloc` of this communicator read and
/// write them where they are. `symmetric_free` waits for nobody. After a reconnect such a buffer is
/// where it was, with what was in it, as ordinary memory that no other process can reach any more;
/// allocate anew for speed.
///
/// Groups: point-to-point operations of a group progress together; its collectives run in their
/// order. Outside of a group a message that fits into a ring (8 to 128 KiB a pair) is sent without
/// waiting for its receiver.
///
/// Threads: as `Communicator`. A moved-from handle, and one that `split` left out, is of rank -1 and
/// world size 1 and refuses every operation.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "comm/backend.h"
#include "comm/backend_defaults.h"
#include "comm/launch/launch_config.h"
#include "comm/log.h"
#include "comm/wait_policy.h"

namespace comm {

namespace detail::host {
struct State;
}

class Host : public BackendDefaults<Host> {
 public:
  struct Config {
    /// Who this rank is and where the ranks meet; empty: `LaunchConfig::from_env()`.
    std::optional<LaunchConfig> launch;

    /// For an operation to end, where it is not given a time of its own.
    std::chrono::milliseconds collective_timeout{5 * 60 * 1000};

    /// For all ranks to come to `attempt_reconnect`.
    std::chrono::milliseconds reconnect_timeout{5 * 60 * 1000};

    /// What a rank hands over in one step of a large operation; the same on all ranks.
    std::size_t slot_bytes = 128 * 1024;

    /// A wait of an operation that takes this long is said in the log, with who is missing.
    std::chrono::milliseconds slow_wait{10 * 1000};

    /// How an operation waits for other ranks.
    HostWaitPolicy waiting;

    /// Receives log lines, one at a time, from any thread; stderr where empty.
    std::function<void(std::string_view)> log;
    std::optional<LogLevels> log_levels;  ///< None: as COMM_LOG says.
  };

  static Result<Host> create(const Config& config);

  Host(Host&& other) noexcept
      : rank_(std::exchange(other.rank_, -1)),
        world_size_(std::exchange(other.world_size_, 1)),
        state_(std::exchange(other.state_, nullptr)) {}
  Host& operator=(Host&& other) noexcept {
    std::swap(rank_, other.rank_);
    std::swap(world_size_, other.world_size_);
    std::swap(state_, other.state_);
    return *this;
  }
  ~Host();  ///< Leaves in good order.

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  std::uint64_t epoch() const;

  Status all_reduce(const ops::AllReduce& op);
  Status all_gather(const ops::AllGather& op);
  Status reduce_scatter(const ops::ReduceScatter& op);
  Status broadcast(const ops::Broadcast& op);
  Status recv_command_u32(const ops::RecvCommandU32& op);
  Status reduce(const ops::Reduce& op);
  Status gather(const ops::Gather& op);
  Status scatter(const ops::Scatter& op);
  Status all_to_all(const ops::AllToAll& op);
  Status all_to_all_v(const ops::AllToAllV& op);
  Status send_to(const ops::SendTo& op);
  Status recv_from(const ops::RecvFrom& op);
  Status send_recv(const ops::SendRecv& op);
  Status barrier(const ops::Barrier& op);
  Status barrier_wait(const ops::BarrierWait& op);
  Status synchronize(const ops::Synchronize& op);

  Status group_start(const ops::GroupStart& op);
  Status group_end(const ops::GroupEnd& op);

  Result<void*> symmetric_alloc(const ops::SymmetricAlloc& op);
  Status symmetric_free(const ops::SymmetricFree& op);

  /// The ranks of a color share nothing with the others but the process: one part may fail alone.
  Result<Host> split(const ops::Split& op);
  /// Works on a communicator that has failed, too: the way on for the ranks that live.
  Result<Host> shrink(const ops::Shrink& op);

  static constexpr bool uses_host_memory = true;
  Status exchange(const Exchange& exchange);
  Status declare_unhealthy(Operation operation, const Status& cause);
  LogSettings log_settings() const;

  bool is_healthy() const;
  Status attempt_reconnect(const ops::AttemptReconnect& op);
  Status abort(const ops::Abort& op);

 private:
  Host() = default;
  explicit Host(std::unique_ptr<detail::host::State> state);

  template <class Op>
  Status submit(const Op& op);
  Status unusable(Operation operation) const;

  int rank_ = -1;
  int world_size_ = 1;
  detail::host::State* state_ = nullptr;
};

static_assert(Backend<Host>);
static_assert(Creatable<Host>);
static_assert(HasAgreement<Host>);
static_assert(HasLogSettings<Host>);

}  // namespace comm
