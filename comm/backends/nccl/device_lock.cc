#include "comm/backends/nccl/device_lock.h"

#include "comm/backends/nccl/waiting.h"

namespace comm::detail::nccl {

DeviceLock& DeviceLock::of_device(int device) noexcept {
  // The rule is per device and process, so the lock is too. More devices than this share.
  constexpr int kDevices = 64;
  static DeviceLock locks[kDevices];
  return locks[static_cast<unsigned>(device) % kDevices];
}

bool DeviceLock::lock_until(const void* owner, Operation operation,
                            const Deadline& deadline) noexcept {
  if (try_lock(owner, operation)) return true;
  Pause pause;
  while (!deadline.passed()) {
    pause.once_more();
    if (try_lock(owner, operation)) return true;
  }
  return try_lock(owner, operation);
}

}  // namespace comm::detail::nccl
