#pragma once

/// `Entry` is one call into NCCL: it is refused when unhealthy, waits (bounded) for other threads on
/// the same GPU and for an open group of another thread, asks for asynchronous errors, and holds the
/// device lock until the call is over, "in progress" included.
///
///     Entry entry(state, Operation::reduce);
///     if (!entry.ok()) return entry.take();
///     return entry.settle(ncclReduce(..., entry.comm(), stream), "ncclReduce");

#include "comm/backends/nccl/state.h"

namespace comm::detail::nccl {

class [[nodiscard]] Entry {
 public:
  /// `even_unhealthy`: for the steps of a reconnect.
  Entry(State& state, Operation operation, bool even_unhealthy = false);
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  ~Entry() { leave(); }

  bool ok() const { return status_.ok(); }
  Status take() { return std::move(status_); }
  ncclComm_t comm() const { return comm_; }

  /// Whether the calling thread has a group open: the call is submitted when that ends.
  bool in_group() const { return in_group_; }

  /// For messages: what an error says of them.
  void set_peers(Peers peers) { peers_ = peers; }

  /// What came of the call, once it is no longer in progress. The lock goes with the entry.
  Status settle(ncclResult_t result, const char* call);

  /// For a call that was made on the short way (`HotState::enter`).
  static Entry inside(State& state, Operation operation, ncclComm_t comm) {
    return Entry(state, operation, comm);
  }

 private:
  Entry(State& state, Operation operation, ncclComm_t inside) noexcept;
  void enter(bool even_unhealthy);
  Status outcome(ncclResult_t result, const char* call);
  void leave() noexcept;

  State& state_;
  Operation operation_;
  Status status_;
  Peers peers_;
  ncclComm_t comm_ = nullptr;
  bool is_inside_ = false;
  bool in_group_ = false;
};

}  // namespace comm::detail::nccl
