#pragma once

/// System calls on sockets, made safe: descriptors are close-on-exec and never block, EINTR is
/// retried, SIGPIPE is not raised.

#include <cstddef>
#include <string>

#include "comm/rendezvous/address.h"
#include "comm/rendezvous/bytes.h"
#include "comm/rendezvous/deadline.h"
#include "comm/rendezvous/unique_fd.h"
#include "comm/result.h"

namespace comm::detail {

/// What came of an attempt to move bytes.
struct Moved {
  enum Kind { some, would_block, closed, error } kind;
  std::size_t bytes = 0;
  int errno_value = 0;
};

Moved receive(int fd, std::byte* into, std::size_t size);
Moved send_some(int fd, ByteSpan bytes);

/// All of it before the deadline; false with `errno` set.
bool send_all(int fd, ByteSpan bytes, Deadline deadline);

/// Small messages leave at once, and a network that falls silent ends the connection after about
/// `peer_timeout`. Does nothing to a socket that is not TCP.
void set_connection_options(int fd, Milliseconds peer_timeout);

/// For sockets of this host: whether the other end belongs to this user or to root. True for TCP,
/// which does not know.
bool peer_is_trusted_user(int fd);

UniqueFd make_socket(int family);
Result<UniqueFd> listen_on(const SocketAddress& address, int backlog);

SocketAddress local_address(int fd);
SocketAddress peer_address(int fd);

/// Whether this is how a socket says that nothing comes over the network any more, rather than that
/// the other end is gone.
bool is_silence(int errno_value);

/// Whether both ends of a TCP connection are on different hosts, as far as addresses tell.
bool crosses_hosts(int fd);

/// Since when nothing has come over a TCP connection, acknowledgements included; 0 on others.
Milliseconds silent_for(int fd);

/// Whether what was sent is yet to be acknowledged by the other end's kernel. TCP only.
bool awaits_acknowledgement(int fd);

/// The text of an errno value.
std::string error_text(int errno_value);

/// Waits, but not long, until the other end has everything that was sent or is gone; reads and
/// drops what still comes in. A socket closed with unread input would throw away what it still has
/// to send. Half-closes first.
void drain_before_close(int fd, Deadline deadline);

}  // namespace comm::detail
