#pragma once

/// `HotState` is what every operation reads, and the way into NCCL when nothing stands in it: the
/// device lock is free, the gate is open, NCCL reports no asynchronous error. Inline, a few dozen
/// instructions with the call itself; whatever else there is goes through `Entry` (entry.h).

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "comm/backends/nccl/device_lock.h"
#include "comm/operations.h"

namespace comm::detail::nccl {

/// Why an operation cannot go straight to NCCL. None set: it can.
enum Gate : std::uint32_t {
  kUnhealthy = 1,  ///< Refused.
  kGroup = 2,      ///< A thread has a group open; others wait for it.
  kSettles = 4,    ///< Calls may answer "in progress", and are waited for.
  kLeftOut = 8,    ///< `split` put this rank into no communicator. Refused.
};

struct HotState {
  std::atomic<std::uint32_t> gate{0};
  std::atomic<ncclComm_t> comm{nullptr};
  DeviceLock* lock = nullptr;
  cudaStream_t stream = nullptr;
  /// By type: an all-reduce of so many elements or fewer may not go straight to NCCL.
  std::size_t detour_counts[kDataTypeCount] = {};
  int rank = -1;
  int world_size = 1;
  /// Operations of this epoch in which all ranks take part. Changed under the device lock, read by any
  /// thread.
  std::uint64_t submitted = 0;

  [[gnu::always_inline]] void count() noexcept {
#if defined(__x86_64__)
    // What a relaxed load, an addition and a relaxed store are here, in one instruction, not three.
    __asm__("incq %0" : "+m"(submitted)::"cc");
#else
    __atomic_store_n(&submitted, __atomic_load_n(&submitted, __ATOMIC_RELAXED) + 1,
                     __ATOMIC_RELAXED);
#endif
  }
  cudaStream_t stream_of(Stream s) const {
    return s.is_given() ? s.get() : stream;
  }

  bool try_lock(Operation operation) noexcept {
    return lock->try_lock(this, operation);
  }
  bool lock_until(Operation operation, const Deadline& deadline) noexcept {
    return lock->lock_until(this, operation, deadline);
  }
  /// True: this thread alone is inside NCCL's communicator and may make one call. False: take the
  /// long way.
  [[gnu::always_inline]] bool enter(Operation operation, ncclComm_t& native) noexcept {
    if (!lock->try_lock(this, operation)) [[unlikely]]
      return false;
    native = comm.load(std::memory_order_relaxed);
    ncclResult_t asynchronous = ncclSuccess;
    if (gate.load(std::memory_order_relaxed) != 0 ||
        ncclCommGetAsyncError(native, &asynchronous) != ncclSuccess || asynchronous != ncclSuccess)
        [[unlikely]] {
      lock->unlock();
      return false;
    }
    count();
    return true;
  }
};

}  // namespace comm::detail::nccl
