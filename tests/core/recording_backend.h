#pragma once

/// A backend of as many ranks as a test wants, none of which exists: it records what it is told and
/// answers what the test has prepared. Arguments are looked at, since it claims to move data.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "comm/backend.h"
#include "comm/backend_defaults.h"

namespace tests {

/// One operation as the backend saw it. Fields that it does not have keep their defaults.
struct Seen {
  comm::OperationInfo info;
  const void* send = nullptr;
  const void* recv = nullptr;
  std::size_t recv_count = 0;
  int source = -1;
  comm::RegistrationHandle handle = 0;
  int color = 0;
  int key = 0;
  std::vector<int> excluded = {};
  comm::Timeout timeout = {};
};

/// Outlives the backend and its moves.
struct Recording {
  std::vector<Seen> seen;
  comm::StatusCode answer = comm::StatusCode::ok;  ///< To every operation from now on.
  bool is_healthy = true;

  const Seen& last() const { return seen.back(); }
};

class RecordingBackend : public comm::BackendDefaults<RecordingBackend> {
 public:
  struct Config {
    int rank = 0;
    int world_size = 1;
    Recording* recording = nullptr;
  };

  static comm::Result<RecordingBackend> create(const Config& config) {
    if (config.recording == nullptr) {
      return comm::make_error(comm::StatusCode::rendezvous, 0, "no recording, no world");
    }
    return RecordingBackend(config);
  }

  int rank() const { return config_.rank; }
  int world_size() const { return config_.world_size; }
  std::uint64_t epoch() const { return 3; }

  comm::Status all_reduce(const comm::ops::AllReduce& op) { return see(op); }
  comm::Status all_reduce_async(const comm::ops::AllReduceAsync& op) { return see(op); }
  comm::Result<comm::CompletedTicket> all_reduce_deferred(const comm::ops::AllReduceDeferred& op) {
    comm::Status s = see(op);
    if (!s.ok()) return s;
    return comm::CompletedTicket{};
  }
  comm::Status all_gather(const comm::ops::AllGather& op) { return see(op); }
  comm::Status reduce_scatter(const comm::ops::ReduceScatter& op) { return see(op); }
  comm::Status broadcast(const comm::ops::Broadcast& op) { return see(op); }
  comm::Status broadcast_async(const comm::ops::BroadcastAsync& op) { return see(op); }
  comm::Status recv_command_u32(const comm::ops::RecvCommandU32& op) { return see(op); }
  comm::Status reduce(const comm::ops::Reduce& op) { return see(op); }
  comm::Status gather(const comm::ops::Gather& op) { return see(op); }
  comm::Status scatter(const comm::ops::Scatter& op) { return see(op); }
  comm::Status all_to_all(const comm::ops::AllToAll& op) { return see(op); }
  comm::Status all_to_all_v(const comm::ops::AllToAllV& op) { return see(op); }
  comm::Status send_to(const comm::ops::SendTo& op) { return see(op); }
  comm::Status recv_from(const comm::ops::RecvFrom& op) { return see(op); }
  comm::Status send_recv(const comm::ops::SendRecv& op) { return see(op); }
  comm::Status barrier(const comm::ops::Barrier& op) { return see(op); }
  comm::Status barrier_wait(const comm::ops::BarrierWait& op) { return see(op); }
  comm::Status group_start(const comm::ops::GroupStart& op) { return see(op); }
  comm::Status group_end(const comm::ops::GroupEnd& op) { return see(op); }
  comm::Result<comm::RegistrationHandle> register_buffer(const comm::ops::RegisterBuffer& op) {
    comm::Status s = see(op);
    if (!s.ok()) return s;
    return comm::RegistrationHandle{77};
  }
  comm::Status deregister_buffer(const comm::ops::DeregisterBuffer& op) { return see(op); }
  comm::Result<void*> symmetric_alloc(const comm::ops::SymmetricAlloc& op) {
    comm::Status s = see(op);
    if (!s.ok()) return s;
    return static_cast<void*>(&memory_);
  }
  comm::Status symmetric_free(const comm::ops::SymmetricFree& op) { return see(op); }
  comm::Status set_add_kernel(const comm::ops::SetAddKernel& op) { return see(op); }
  comm::Result<RecordingBackend> split(const comm::ops::Split& op) {
    comm::Status s = see(op);
    if (!s.ok()) return s;
    return RecordingBackend({op.key, config_.world_size / 2, config_.recording});
  }
  comm::Result<RecordingBackend> shrink(const comm::ops::Shrink& op) {
    comm::Status s = see(op);
    if (!s.ok()) return s;
    config_.recording->seen.back().excluded.assign(op.excluded, op.excluded + op.excluded_count);
    return RecordingBackend({0, config_.world_size - 1, config_.recording});
  }
  comm::Status synchronize(const comm::ops::Synchronize& op) { return see(op); }
  bool is_healthy() const { return config_.recording->is_healthy; }
  comm::Status attempt_reconnect(const comm::ops::AttemptReconnect& op) { return see(op); }
  comm::Status abort(const comm::ops::Abort& op) { return see(op); }

 private:
  explicit RecordingBackend(Config config) : config_(config) {}

  template <class Op>
  comm::Status see(const Op& op) {
    Seen seen{.info = comm::info_of(op)};
    if constexpr (requires { op.send; }) seen.send = op.send;
    if constexpr (requires { op.recv; }) seen.recv = op.recv;
    if constexpr (requires { op.buffer; }) seen.send = seen.recv = op.buffer;
    if constexpr (requires { op.recv_count; }) seen.recv_count = op.recv_count;
    if constexpr (requires { op.source; }) seen.source = op.source;
    if constexpr (requires { op.handle; }) seen.handle = op.handle;
    if constexpr (requires { op.color; }) {
      seen.color = op.color;
      seen.key = op.key;
    }
    if constexpr (requires { op.timeout; }) seen.timeout = op.timeout;
    config_.recording->seen.push_back(std::move(seen));
    if (config_.recording->answer == comm::StatusCode::ok) return {};
    return comm::make_error(config_.recording->answer, 5, "as prepared");
  }

  static inline float memory_[16] = {};
  Config config_;
};

static_assert(comm::Backend<RecordingBackend>);
static_assert(comm::Creatable<RecordingBackend>);

}  // namespace tests
