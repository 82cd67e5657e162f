#pragma once

/// `DeviceLock` serialises calls into NCCL on one GPU, across all communicators of the process:
/// NCCL is not safe for several threads on one communicator, nor on several of one device. Taking it
/// when it is free is one instruction. Who waits for it waits until a deadline and then learns which
/// operation holds it. One per device, shared by the process, there until its end.

#include <atomic>
#include <cstdint>

#include "comm/operations.h"

namespace comm::detail::nccl {

class Deadline;

class DeviceLock {
 public:
  static DeviceLock& of_device(int device) noexcept;

  /// `owner` is the communicator, which the watchdog of each asks for.
  [[gnu::always_inline]] bool try_lock(const void* owner) noexcept {
    const void* nobody = nullptr;
    return owner_.compare_exchange_strong(nobody, owner, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  /// For a submission, which messages may have to name.
  [[gnu::always_inline]] bool try_lock(const void* owner, Operation operation) noexcept {
    if (!try_lock(owner)) [[unlikely]]
      return false;
    operation_.store(operation, std::memory_order_relaxed);
    return true;
  }
  [[gnu::always_inline]] void unlock() noexcept {
    owner_.store(nullptr, std::memory_order_release);
  }

  /// False when the deadline passed first.
  bool lock_until(const void* owner, Operation operation, const Deadline& deadline) noexcept;

  /// For a watchdog: marks the call of `owner` that is inside now, if one is. The mark goes with the
  /// call, so whoever finds it later has found the same call; the call itself pays nothing for it.
  void mark(const void* owner) noexcept {
    (void)owner_.compare_exchange_strong(owner, marked(owner), std::memory_order_relaxed);
  }
  bool is_marked(const void* owner) const noexcept {
    return owner_.load(std::memory_order_relaxed) == marked(owner);
  }

  /// The submission that holds it, or held it last.
  Operation operation() const noexcept { return operation_.load(std::memory_order_relaxed); }

 private:
  /// No communicator is at an odd address.
  static const void* marked(const void* owner) noexcept {
    return static_cast<const char*>(owner) + 1;
  }

  alignas(64) std::atomic<const void*> owner_{nullptr};
  std::atomic<Operation> operation_{};
};

}  // namespace comm::detail::nccl
