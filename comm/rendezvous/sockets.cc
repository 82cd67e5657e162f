#include "comm/rendezvous/sockets.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace comm::detail {
namespace {

template <class T>
void set(int fd, int level, int option, T value) {
  // Options refine; a kernel that lacks one still has a working socket.
  static_cast<void>(::setsockopt(fd, level, option, &value, sizeof value));
}

bool again(int e) {
  return e == EAGAIN || e == EWOULDBLOCK;
}

}  // namespace

Moved receive(int fd, std::byte* into, std::size_t size) {
  for (;;) {
    const ssize_t n = ::recv(fd, into, size, MSG_DONTWAIT);
    if (n > 0) return {Moved::some, static_cast<std::size_t>(n)};
    if (n == 0) return {Moved::closed};
    const int e = errno;
    if (e == EINTR) continue;
    return {again(e) ? Moved::would_block : Moved::error, 0, e};
  }
}

Moved send_some(int fd, ByteSpan bytes) {
  for (;;) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0) return {Moved::some, static_cast<std::size_t>(n)};
    const int e = errno;
    if (e == EINTR) continue;
    return {again(e) ? Moved::would_block : Moved::error, 0, e};
  }
}

bool send_all(int fd, ByteSpan bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const Moved m = send_some(fd, bytes);
    if (m.kind == Moved::some) {
      bytes = bytes.subspan(m.bytes);
    } else if (m.kind != Moved::would_block) {
      errno = m.errno_value;
      return false;
    } else if (!poll_fd(fd, POLLOUT, deadline)) {
      errno = ETIMEDOUT;
      return false;
    }
  }
  return true;
}

void set_connection_options(int fd, Milliseconds peer_timeout) {
  const int family = local_address(fd).family();
  if (family != AF_INET && family != AF_INET6) return;
  const long seconds = std::max<long>(1, static_cast<long>(peer_timeout.count() / 1000));
  const int idle = static_cast<int>(std::clamp<long>(seconds / 3, 1, 7200));
  const int interval = static_cast<int>(std::clamp<long>(seconds / 6, 1, 7200));
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
  // Ends the connection also when bytes that were sent stay unanswered; keepalive alone does not
  // look at those.
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
      static_cast<unsigned>(std::clamp<Milliseconds::rep>(peer_timeout.count(), 1000, 7'200'000)));
}

bool peer_is_trusted_user(int fd) {
  if (local_address(fd).family() != AF_UNIX) return true;
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return false;
  return credentials.uid == ::geteuid() || credentials.uid == 0;
}

UniqueFd make_socket(int family) {
  return UniqueFd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

Result<UniqueFd> listen_on(const SocketAddress& address, int backlog) {
  UniqueFd fd = make_socket(address.family());
  int e = fd ? 0 : errno;
  if (fd) {
    set(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (address.family() == AF_INET6) {
      set(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, address.is_wildcard() ? 0 : 1);
    }
    if (::bind(fd.get(), address.raw(), address.length) == 0 && ::listen(fd.get(), backlog) == 0) {
      return fd;
    }
    e = errno;
  }
  return make_error(StatusCode::rendezvous, e, "rendezvous: cannot listen on %s: %s%s",
                    address.text().c_str(), error_text(e).c_str(),
                    e == EADDRINUSE ? " (another job or program holds it; choose another port, or "
                                      "let the launcher bind port 0)"
                                    : "");
}

SocketAddress local_address(int fd) {
  SocketAddress a;
  a.length = sizeof a.storage;
  if (::getsockname(fd, a.raw(), &a.length) != 0) return {};
  return a;
}

SocketAddress peer_address(int fd) {
  SocketAddress a;
  a.length = sizeof a.storage;
  if (::getpeername(fd, a.raw(), &a.length) != 0) return {};
  return a;
}

bool is_silence(int errno_value) {
  return errno_value == ETIMEDOUT || errno_value == EHOSTUNREACH || errno_value == ENETUNREACH ||
         errno_value == EHOSTDOWN || errno_value == ENETDOWN;
}

bool crosses_hosts(int fd) {
  const SocketAddress own = local_address(fd);
  return own.family() != AF_UNIX && own.length != 0 && own.host() != peer_address(fd).host();
}

Milliseconds silent_for(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return Milliseconds(0);
  return Milliseconds(std::min(info.tcpi_last_data_recv, info.tcpi_last_ack_recv));
}

bool awaits_acknowledgement(int fd) {
  int unsent = 0;
  return ::ioctl(fd, SIOCOUTQ, &unsent) == 0 && unsent > 0;
}

std::string error_text(int errno_value) {
  return std::error_code(errno_value, std::generic_category()).message();
}

void drain_before_close(int fd, Deadline deadline) {
  ::shutdown(fd, SHUT_WR);
  std::byte sink[4096];
  for (;;) {
    const Moved m = receive(fd, sink, sizeof sink);
    if (m.kind == Moved::closed || m.kind == Moved::error) return;
    if (m.kind == Moved::some) continue;
    int unsent = 0;
    if (::ioctl(fd, SIOCOUTQ, &unsent) != 0 || unsent == 0) return;
    if (deadline.passed()) return;
    // Nothing announces an empty send queue, so this looks again after a moment.
    poll_fd(fd, POLLIN, deadline.earlier(Deadline::in(Milliseconds(2))));
  }
}

}  // namespace comm::detail
