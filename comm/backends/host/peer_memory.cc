#include "comm/backends/host/peer_memory.h"

#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace comm::detail::host {

namespace {

/// Whether memory of this process is read as such. Each rank maps the shared file at an address of its
/// own, so ThreadSanitizer sees no order between ranks that are threads, and would report every read.
#if defined(__SANITIZE_THREAD__)
constexpr bool kReadsDirectly = false;
#else
constexpr bool kReadsDirectly = true;
#endif

}  // namespace

PeerMemory::PeerMemory() : self_(getpid()) {
  // Another process must not pass for the rank by what it has at this address.
  if (getrandom(&sample_, sizeof sample_, 0) != sizeof sample_)
    sample_ = static_cast<std::uint64_t>(self_);
}

bool PeerMemory::admit(int rank, pid_t pid, const Sample& sample) {
  pids_[static_cast<std::size_t>(rank)] = pid;
  std::uint64_t value = 0;
  return read(rank, &value, reinterpret_cast<const void*>(sample.address), sizeof value) == 0 &&
         value == sample.value;
}

int PeerMemory::read(int rank, void* to, const void* from, std::size_t bytes) const noexcept {
  const pid_t pid = pids_[static_cast<std::size_t>(rank)];
  if (kReadsDirectly && pid == self_) {
    std::memcpy(to, from, bytes);
    return 0;
  }
  auto* begin = static_cast<std::byte*>(to);
  auto* source = static_cast<std::byte*>(const_cast<void*>(from));
  while (bytes != 0) {
    const iovec here{begin, bytes};
    const iovec there{source, bytes};
    const ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);
    if (n <= 0) return n == 0 ? EFAULT : errno;
    begin += n;
    source += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return 0;
}

}  // namespace comm::detail::host
