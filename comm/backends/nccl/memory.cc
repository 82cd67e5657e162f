#include <algorithm>

#include "comm/backends/nccl.h"
#include "comm/backends/nccl/register_again.h"

namespace comm {

using detail::nccl::Entry;
using detail::nccl::RegistrationEntry;
using detail::nccl::SymmetricEntry;

Result<RegistrationHandle> Nccl::register_buffer(const ops::RegisterBuffer& op) {
  auto& s = *state_;
  Status can = s.can_wait(s.stream, Operation::register_buffer);
  if (!can.ok()) return can;
  Entry call(s, Operation::register_buffer);
  if (!call.ok()) return call.take();
  RegistrationEntry entry{0, op.buffer, op.bytes, nullptr};
  Status made = detail::nccl::register_natively(call, entry);
  if (!made.ok()) return made;
  const std::lock_guard<std::mutex> guard(s.tables);
  entry.handle = ++s.last_handle;
  s.registrations.push_back(entry);
  return entry.handle;
}

Status Nccl::deregister_buffer(const ops::DeregisterBuffer& op) {
  if (op.handle == 0) return {};  // "No registration."
  auto& s = *state_;
  RegistrationEntry entry{};
  {
    const std::lock_guard<std::mutex> guard(s.tables);
    const auto found =
        std::find_if(s.registrations.begin(), s.registrations.end(),
                     [&](const RegistrationEntry& e) { return e.handle == op.handle; });
    if (found == s.registrations.end())
      return s.error(StatusCode::invalid_argument, 0, Operation::deregister_buffer,
                     "handle %llu names no registered buffer of this communicator; was it "
                     "deregistered before?",
                     static_cast<unsigned long long>(op.handle));
    entry = *found;
    s.registrations.erase(found);
  }
  // On a communicator that failed the native handle is gone with it.
  if (entry.native == nullptr || !s.is_open()) return {};
  Entry call(s, Operation::deregister_buffer);
  if (!call.ok()) return s.is_open() ? call.take() : Status();
  return call.settle(detail::nccl::deregister_buffer(call.comm(), entry.native),
                     "ncclCommDeregister");
}

Result<void*> Nccl::symmetric_alloc(const ops::SymmetricAlloc& op) {
  auto& s = *state_;
  Status can = s.can_wait(s.stream, Operation::symmetric_alloc);
  if (!can.ok()) return can;
  if (!detail::nccl::has_registration())
    return s.error(StatusCode::unsupported, 0, Operation::symmetric_alloc,
                   "NCCL %d has no memory for peers; it needs 2.19.3 or later",
                   detail::nccl::loaded_version());
  constexpr std::size_t kPage = 4096;  // What windows are aligned to.
  if (op.bytes > SIZE_MAX - kPage)
    return s.error(StatusCode::invalid_argument, 0, Operation::symmetric_alloc,
                   "%zu bytes are more than there can be", op.bytes);
  SymmetricEntry entry{nullptr, (std::max<std::size_t>(op.bytes, 1) + kPage - 1) / kPage * kPage,
                       nullptr};
  const detail::nccl::DeviceGuard current(s.device);
  Entry call(s, Operation::symmetric_alloc);
  if (!call.ok()) return call.take();
  const ncclResult_t result = detail::nccl::mem_alloc(&entry.memory, entry.bytes);
  // The other ranks may have theirs and wait for this one in the window: it is out of step.
  if (result != ncclSuccess)
    return s.poison(s.nccl_error(result, Operation::symmetric_alloc, "ncclMemAlloc"));
  if (detail::nccl::has_windows()) {
    Status made = call.settle(
        detail::nccl::window_register(call.comm(), entry.memory, entry.bytes, &entry.window),
        "ncclCommWindowRegister");
    if (!made.ok()) {
      (void)detail::nccl::mem_free(entry.memory);
      return made;
    }
  }
  const std::lock_guard<std::mutex> guard(s.tables);
  s.symmetric.push_back(entry);
  return entry.memory;
}

Status Nccl::symmetric_free(const ops::SymmetricFree& op) {
  auto& s = *state_;
  SymmetricEntry entry{};
  {
    const std::lock_guard<std::mutex> guard(s.tables);
    const auto found = std::find_if(s.symmetric.begin(), s.symmetric.end(),
                                    [&](const SymmetricEntry& e) { return e.memory == op.buffer; });
    if (found == s.symmetric.end())
      return s.error(StatusCode::invalid_argument, 0, Operation::symmetric_free,
                     "%p was not made by symmetric_alloc of this communicator, or was freed before",
                     op.buffer);
    entry = *found;
    s.symmetric.erase(found);
  }
  const detail::nccl::DeviceGuard current(s.device);
  Status done;
  if (entry.window != nullptr && s.is_open()) {
    Entry call(s, Operation::symmetric_free);
    if (call.ok())
      done = call.settle(detail::nccl::window_deregister(call.comm(), entry.window),
                         "ncclCommWindowDeregister");
  }
  const ncclResult_t freed = detail::nccl::mem_free(entry.memory);
  if (done.ok() && freed != ncclSuccess)
    done = s.nccl_error(freed, Operation::symmetric_free, "ncclMemFree");
  return done;
}

}  // namespace comm
