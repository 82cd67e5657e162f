#pragma once

/// Socket addresses: IPv4, IPv6 and, as "unix:NAME", abstract sockets of this host; what names and
/// interfaces stand for, and which addresses are this host's own. Resolving a name asks the system,
/// which may take longer than anyone wants to wait, so it is done on a thread that is left behind
/// when the deadline passes. Thread-safe.

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/rendezvous/deadline.h"
#include "comm/result.h"

namespace comm::detail {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  int family() const { return storage.ss_family; }
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&storage); }

  std::uint16_t port() const;
  void set_port(std::uint16_t port);
  bool is_loopback() const;
  bool is_wildcard() const;

  std::string host() const;  ///< Numeric, or "unix:NAME".
  std::string text() const;  ///< "host:port", "[host]:port" or "unix:NAME".
};

/// Whether the text means an abstract socket.
bool is_unix_address(std::string_view text);

/// True for text such as 127.0.0.1, ::1, localhost and unix:NAME: this host and no other.
bool names_this_host_only(const std::string& text);

/// An address in numbers (or unix:NAME), with no question to the system.
bool parse_numeric(const std::string& text, std::uint16_t port, SocketAddress& out);

/// Every address the name has, in the system's order.
Result<std::vector<SocketAddress>> resolve(const std::string& name, std::uint16_t port,
                                           Deadline deadline);

/// This host's own addresses; of one interface where `interface` is not empty. IPv4 first, then
/// global IPv6, then link-local.
std::vector<SocketAddress> local_addresses(const std::string& interface, std::uint16_t port);

/// The address from which this host would speak to the outside; none without a route.
bool outward_address(std::uint16_t port, SocketAddress& out);

SocketAddress wildcard_address(int family, std::uint16_t port);

}  // namespace comm::detail
