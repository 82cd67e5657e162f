#include "comm/backends/nccl/register_again.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "comm/backends/nccl/native.h"

namespace comm::detail::nccl {

Status register_natively(Entry& call, RegistrationEntry& entry) {
  entry.native = nullptr;
  if (!has_registration() || entry.bytes == 0) return {};
  return call.settle(nccl::register_buffer(call.comm(), entry.buffer, entry.bytes, &entry.native),
                     "ncclCommRegister");
}

namespace {

/// All ranks make the same windows in the same order, or none does: a window is a collective.
Status register_windows(Entry& call, std::vector<SymmetricEntry>& symmetric) {
  if (!has_windows()) return {};
  for (SymmetricEntry& entry : symmetric) {
    entry.window = nullptr;
    Status made =
        call.settle(nccl::window_register(call.comm(), entry.memory, entry.bytes, &entry.window),
                    "ncclCommWindowRegister");
    if (!made.ok()) return made;
  }
  return {};
}

}  // namespace

Status State::register_again() {
  // A restarted rank has none of the old buffers: then nobody makes windows, and all is only slower.
  bool same_windows = !is_derived;
  if (!is_derived && world_size > 1) {
    std::vector<std::uint64_t> sizes;
    for (const SymmetricEntry& entry : symmetric) sizes.push_back(entry.bytes);
    Result<std::vector<Bytes>> told =
        channel->all_gather(std::as_bytes(std::span(sizes).first(std::min<std::size_t>(
                                sizes.size(), channel->max_payload() / sizeof(std::uint64_t)))),
                            config.reconnect_timeout);
    if (!told.ok()) return std::move(told).status();
    for (const Bytes& other : *told) same_windows = same_windows && other == told->front();
  }
  Entry call(*this, Operation::register_buffer, true);
  if (!call.ok()) return call.take();
  // On copies: the tables are not locked during a call that only an abort may get out of NCCL.
  std::vector<RegistrationEntry> buffers = registrations;
  std::vector<SymmetricEntry> windows = symmetric;
  for (RegistrationEntry& entry : buffers) {
    Status made = register_natively(call, entry);
    if (!made.ok()) return made;
  }
  Status made = same_windows ? register_windows(call, windows) : Status();
  if (!made.ok()) return made;
  const std::lock_guard<std::mutex> guard(tables);
  registrations = std::move(buffers);
  symmetric = std::move(windows);
  return {};
}

}  // namespace comm::detail::nccl
