#include "comm/backends/host/peers.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace comm::detail::host {

Status Peers::watch(int rank, pid_t pid) {
  const auto index = static_cast<std::size_t>(rank);
  pids_[index] = pid;
  UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process) {
    if (errno == ESRCH)
      return make_error(StatusCode::peer_lost, errno,
                        "rank %d (process %d) ended while the ranks joined", rank,
                        static_cast<int>(pid));
    return {};  // Before Linux 5.3, or forbidden: the rendezvous' connection has to tell.
  }
  if (!epoll_) epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = static_cast<std::uint32_t>(rank);
  if (!epoll_ || epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, process.get(), &event) != 0)
    return make_error(StatusCode::internal, errno, "Host cannot watch the process of rank %d: %s",
                      rank, std::strerror(errno));
  processes_[index] = std::move(process);
  return {};
}

std::uint64_t Peers::ended() noexcept {
  if (!epoll_) return 0;
  epoll_event events[kMaxRanks];
  const int n = epoll_wait(epoll_.get(), events, kMaxRanks, 0);
  for (int i = 0; i < n; ++i)
    ended_.fetch_or(std::uint64_t{1} << events[i].data.u32, std::memory_order_relaxed);
  return ended_.load(std::memory_order_relaxed);
}

}  // namespace comm::detail::host
