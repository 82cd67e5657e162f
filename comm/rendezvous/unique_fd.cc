#include "comm/rendezvous/unique_fd.h"

#include <unistd.h>

#include <cerrno>

namespace comm::detail {

void UniqueFd::reset(int fd) noexcept {
  const int old = std::exchange(fd_, fd);
  if (old < 0 || old == fd) return;
  const int saved = errno;
  // On Linux the descriptor is gone even after EINTR; a second close could hit somebody else's.
  ::close(old);
  errno = saved;
}

}  // namespace comm::detail
