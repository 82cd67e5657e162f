#include <dlfcn.h>

#include "comm/backends/nccl/native.h"
#include "comm/backends/nccl/state.h"

namespace comm::detail::nccl {

Status check_version() {
  const int found = loaded_version();
  // Newer libraries of the same generation know every older structure; older ones silently drop
  // what they do not know, and lack symbols.
  if (found >= NCCL_VERSION_CODE && found / 10000 == NCCL_VERSION_CODE / 10000) return {};
  Dl_info where{};
  const bool known = ::dladdr(reinterpret_cast<const void*>(&ncclGetVersion), &where) != 0 &&
                     where.dli_fname != nullptr;
  return make_error(
      StatusCode::unsupported, 0,
      "create: NCCL %d.%d.%d was loaded from %s, but this program was built with the header of "
      "%d.%d.%d and needs that or a later %d.x; put the right libnccl first in LD_LIBRARY_PATH, or "
      "build with the header that belongs to it (NCCL_HOME)",
      found / 10000, found / 100 % 100, found % 100, known ? where.dli_fname : "an unknown place",
      NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH, NCCL_MAJOR);
}

}  // namespace comm::detail::nccl
