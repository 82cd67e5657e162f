#include "comm/rendezvous/listener.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "comm/rendezvous/address.h"
#include "comm/rendezvous/sockets.h"

namespace comm {

using detail::Deadline;
using detail::Milliseconds;
using detail::SocketAddress;

Listener::Listener(detail::UniqueFd fd, std::string address, std::uint16_t port) noexcept
    : fd_(std::move(fd)), address_(std::move(address)), port_(port) {}

Result<std::shared_ptr<Listener>> Listener::bind(const std::string& address, std::uint16_t port,
                                                 int backlog) {
  std::vector<SocketAddress> candidates = detail::local_addresses(address, port);
  if (address.empty() || candidates.empty()) {
    auto resolved = detail::resolve(address, port, Deadline::in(Milliseconds(10'000)));
    if (!resolved.ok()) return std::move(resolved).status();
    candidates = std::move(*resolved);
  }
  Status first;
  for (const SocketAddress& candidate : candidates) {
    Result<detail::UniqueFd> fd = detail::listen_on(candidate, backlog);
    if (fd.ok()) {
      const SocketAddress bound = detail::local_address(fd->get());
      return std::make_shared<Listener>(std::move(*fd), bound.host(), bound.port());
    }
    if (first.ok()) first = std::move(fd).status();
  }
  return first;
}

Result<std::shared_ptr<Listener>> Listener::adopt(int fd) {
  int listening = 0;
  socklen_t size = sizeof listening;
  if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || listening == 0) {
    return make_error(StatusCode::rendezvous, errno,
                      "rendezvous: descriptor %d, inherited as the listener, is not a listening "
                      "socket; was it closed before exec?",
                      fd);
  }
  // The original must not leak into programs that this one starts, but has to outlive this listener.
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  detail::UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!copy) {
    return make_error(StatusCode::internal, errno,
                      "rendezvous: cannot duplicate the inherited listener: %s",
                      detail::error_text(errno).c_str());
  }
  const SocketAddress bound = detail::local_address(copy.get());
  return std::make_shared<Listener>(std::move(copy), bound.host(), bound.port());
}

}  // namespace comm
