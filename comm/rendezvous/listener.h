#pragma once

/// `Listener` is a bound, listening socket. The port is taken once and kept: there is no moment at
/// which it was probed and is not yet held, so a port from `bind(address, 0)` can be handed to other
/// ranks without a race, and the same listener serves every epoch of a communicator.
///
///     comm::Result<std::shared_ptr<comm::Listener>> l = comm::Listener::bind("127.0.0.1", 0);
///     start_workers((*l)->port());
///
/// The socket is close-on-exec and has SO_REUSEADDR. Thread safety: immutable after creation.

#include <cstdint>
#include <memory>
#include <string>

#include "comm/rendezvous/unique_fd.h"
#include "comm/result.h"

namespace comm {

class Listener {
 public:
  /// Binds a name, an IPv4 or IPv6 address, an interface ("eth0") or "unix:NAME". Port 0 takes a
  /// free one. `backlog` bounds the connections the kernel holds before they are accepted.
  static Result<std::shared_ptr<Listener>> bind(const std::string& address, std::uint16_t port,
                                                int backlog = 4096);

  /// Wraps a duplicate of a listening socket that somebody else owns and keeps.
  static Result<std::shared_ptr<Listener>> adopt(int fd);

  /// Keeps an existing listening socket.
  Listener(detail::UniqueFd fd, std::string address, std::uint16_t port) noexcept;

  int fd() const noexcept { return fd_.get(); }
  const std::string& address() const noexcept { return address_; }  ///< Numeric, as bound.
  std::uint16_t port() const noexcept { return port_; }

 private:
  detail::UniqueFd fd_;
  std::string address_;
  std::uint16_t port_;
};

}  // namespace comm
