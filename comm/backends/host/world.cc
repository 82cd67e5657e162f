#include "comm/backends/host/world.h"

#include <sys/mman.h>

#include <new>

namespace comm::detail::host {

ForkGuard::ForkGuard() : page_(&fallback_) {
  void* page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (madvise(page, kPage, MADV_WIPEONFORK) != 0) {  // Before Linux 4.14.
    munmap(page, kPage);
    return;
  }
  page_ = ::new (page) std::atomic<std::uint32_t>(1);
}

ForkGuard::~ForkGuard() {
  if (page_ != &fallback_) munmap(page_, kPage);
}

}  // namespace comm::detail::host
