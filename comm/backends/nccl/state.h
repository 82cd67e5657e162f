#pragma once

/// `State` is what a communicator over NCCL is made of, behind the movable handle `Nccl`. Shared by
/// the handle, its tickets and calls that were left to themselves.

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/backend.h"
#include "comm/backends/nccl/bounded.h"
#include "comm/backends/nccl/config.h"
#include "comm/backends/nccl/device_lock.h"
#include "comm/backends/nccl/event_pool.h"
#include "comm/backends/nccl/goodbye.h"
#include "comm/backends/nccl/hot_state.h"
#include "comm/backends/nccl/roll_call.h"
#include "comm/backends/nccl/scratch.h"
#include "comm/backends/nccl/waiting.h"
#include "comm/health/told.h"
#include "comm/logger.h"
#include "comm/operations.h"
#include "comm/rendezvous/out_of_band.h"
#include "comm/result.h"

namespace comm::detail::nccl {

/// The handle of the communicator's own buffers, which no caller is given.
inline constexpr RegistrationHandle kOwnHandle = ~RegistrationHandle{0};

struct RegistrationEntry {
  RegistrationHandle handle;
  void* buffer;
  std::size_t bytes;
  void* native;
};

struct SymmetricEntry {
  void* memory;
  std::size_t bytes;
  void* window;
};

/// Whom a message goes to and comes from, for errors; -1: no such message.
struct Peers {
  int to = -1;
  int from = -1;
};

/// Which exchanges of a few bytes are whose on the channel, which all communicators share.
struct Agreement {
  std::uint64_t id = 0;         ///< Of this communicator; the first one's is 0.
  std::uint64_t epoch = 0;      ///< To which the rest belongs.
  std::uint64_t exchanges = 0;  ///< So far.
  std::map<std::uint64_t, std::uint32_t> divisions;  ///< How often it was divided so.

  void begin_epoch(std::uint64_t now);
  /// The id of a part: the same on its ranks, since all of them have taken part in each division.
  std::uint64_t id_of_part(std::uint64_t division, std::uint64_t part);
};

std::uint64_t mix(std::uint64_t a, std::uint64_t b);

/// A number that tells threads apart.
const void* this_thread() noexcept;

struct State : HotState, std::enable_shared_from_this<State> {
  int device = -1;
  bool reduces_float8 = false;

  NcclConfig config;
  std::shared_ptr<OutOfBand> channel;
  bool is_derived = false;       ///< Made by split or shrink: it cannot reconnect by itself.
  bool ignores_channel = false;  ///< Shrunk after a loss, which the channel reports for ever.
  std::atomic<std::uint64_t> epoch{0};
  /// What makes it, until it is made; for messages.
  std::atomic<const char*> maker{"create"};
  Agreement agreement;
  std::unique_ptr<Logger> log;

  EventPool events;
  Scratch receive[2];  ///< Of ordinary and of captured operations.
  Scratch word[2];     ///< Of barriers.
  struct {
    cudaStream_t stream;
    Capture capture;
    bool is_used;
  } word_in_group{};  ///< By a barrier in the open group.
  std::atomic<CUfunc_st*> add_kernel{nullptr};

  std::atomic<const void*> group_owner{nullptr};  ///< `this_thread()`
  int group_depth = 0;                            ///< The owner's.
  Status group_error;                             ///< The first of the open group's members.

  mutable std::mutex tables;
  std::vector<RegistrationEntry> registrations;
  std::vector<SymmetricEntry> symmetric;
  RegistrationHandle last_handle = 0;

  /// Submitted in this epoch besides: between two ranks.
  std::atomic<std::uint32_t> messages{0};

  /// The last that went the long way, and how many there were then; on the short way (`HotState::enter`)
  /// goes nothing but all_reduce, which writes down no more than that there is one more.
  std::atomic<Operation> last_entered{Operation::attempt_reconnect};
  std::atomic<std::uint64_t> entered_at{0};

  mutable RollCall roll;
  SlowWait slow;
  Standstill standstill;
  Told told;  ///< Which threads know of which epoch's failure.
  mutable std::mutex cause_mutex;
  Status cause;  ///< The first, while unhealthy.

  TimedMutex reconnecting;
  TimedMutex ending;  ///< Held by whoever destroys or aborts the native communicator.
  bool is_closed = false;
  LateEnd stuck;  ///< Of an abort that NCCL keeps to itself, and whether it has ended since.

  Thread watchdog;
  std::atomic<const void*> watchdog_thread{nullptr};  ///< `this_thread()` of it.
  std::mutex watchdog_mutex;
  std::condition_variable watchdog_wakes;
  bool watchdog_stops = false;

  State() = default;
  ~State();

  bool is_open() const {
    return (gate.load(std::memory_order_acquire) & (kUnhealthy | kLeftOut)) == 0;
  }
  std::uint64_t collectives() const { return __atomic_load_n(&submitted, __ATOMIC_RELAXED); }
  /// The last operation of this communicator; the device lock knows that of the GPU.
  Operation last_operation() const {
    return collectives() > entered_at.load() ? Operation::all_reduce : last_entered.load();
  }
  Deadline collective_deadline() const { return Deadline(config.collective_timeout); }

  // health.cc
  /// "all_reduce on rank 1 of 4 (GPU 1, epoch 0, seq 17): " and the rest as by printf.
  [[gnu::cold, gnu::format(printf, 5, 6)]] Status error(StatusCode code, int native,
                                                        Operation operation, const char* format,
                                                        ...) const;
  [[gnu::cold]] Status cuda_error(cudaError_t error, Operation operation, const char* call) const;
  [[gnu::cold]] Status nccl_error(ncclResult_t result, Operation operation, const char* call,
                                  Peers peers = {}) const;
  /// The error of something that does not know where it is.
  [[gnu::cold]] Status located(Status failure, Operation operation) const;
  /// Why `operation` is refused. With `wait` also, a moment later, who is behind: for a call that
  /// would have waited.
  [[gnu::cold]] Status refuse(Operation operation, bool wait = false) const;
  /// Makes the communicator unhealthy, tells the other ranks, and hands the error back.
  [[gnu::cold]] Status poison(Status failure);
  /// `poison`, for a thread that waited: its error also says what the roll call found.
  [[gnu::cold]] Status poison_and_name(Status failure);
  /// The first cause, while unhealthy. With `wait` also, a moment later, who is behind.
  Status first_cause(bool wait = false) const;
  /// Asks the channel, and NCCL if no other thread is inside it.
  Status look(Operation operation);
  /// The rank that has left in good order although this one has submitted what needs it; or -1.
  OutOfBand::Departure missed_departure() const;
  Status look_for_the_departed();
  /// Asks NCCL. Under the device lock.
  Status ask_nccl(Operation operation);
  [[gnu::cold, gnu::format(printf, 3, 4)]] void say(LogLevel level, const char* format, ...) const;

  // agreement.cc
  void open_log();
  Status exchange(const Exchange& exchange);

  // roll_call.cc
  /// Once an epoch, on each rank, after the first failure.
  void call_roll();
  /// On each rank, where one waits for long; the watchdog's.
  void answer_calls();

  // settle.cc
  /// Waits until `native` is no longer "in progress".
  Status settle(ncclComm_t native, Operation operation, const Deadline& deadline);

  // wait.cc
  /// What the end of an operation's work means: done, or given up.
  Status completed(Operation operation);
  Status wait_for(cudaEvent_t event, Operation operation, const Deadline& deadline);
  /// Waits until what is now on `s` is done.
  Status wait_for_stream(cudaStream_t s, Operation operation, const Deadline& deadline);
  /// Refuses to wait where nothing could come of it: in a group, or on a stream being captured.
  Status can_wait(cudaStream_t s, Operation operation) const;

  // barrier.cc
  Status enqueue_barrier(Operation operation, cudaStream_t s);
  /// Enqueues a barrier on the own stream and waits for it.
  Status pass_barrier(Operation operation, const Deadline& deadline);

  // connect.cc
  Status connect(const Deadline& deadline);
  /// With the ranks that have this id, as `rank` of `world_size`.
  Status connect_as(const ncclUniqueId& id, Operation operation, const Deadline& deadline);
  // create.cc
  Status allocate();
  void plan_detours();
  Status warm_up(const Deadline& deadline);
  // memory.cc
  Status register_again();

  // watchdog.cc
  /// Of a new epoch, before anybody compares them with those of ranks that have left it.
  void begin_counts() noexcept;
  Status start_watchdog();
  void stop_watchdog() noexcept;
  bool is_watchdog() const { return watchdog_thread.load() == this_thread(); }
  // lifecycle.cc
  /// Whether NCCL still does not let go, after a wait for that of at most `deadline`.
  bool is_stuck(const Deadline& deadline);
  Status abort_native();
  Status close();
  Status close_in_order();
  /// Whether what this communicator has queued on its own is done, waiting for it.
  bool drain(const Deadline& deadline);
  void release_memory() noexcept;
};

/// How many groups the calling thread has open, on whichever communicators.
int open_groups() noexcept;

Result<std::shared_ptr<State>> create(const NcclConfig& config);
Status reconnect(State& state);

/// Two ranks on one GPU would only fail inside NCCL, in other words on each rank. Every rank calls it.
Status check_places(State& state, const Deadline& deadline);
Status abort(State& state);
Result<std::shared_ptr<State>> split(State& state, const ops::Split& op);
Result<std::shared_ptr<State>> shrink(State& state, const ops::Shrink& op);

/// The version of the library that is loaded, against that of the header. Before anything else.
Status check_version();

}  // namespace comm::detail::nccl
