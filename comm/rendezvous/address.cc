#include "comm/rendezvous/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

#include "comm/rendezvous/unique_fd.h"

namespace comm::detail {
namespace {

constexpr std::string_view kUnix = "unix:";

const sockaddr_in& v4(const SocketAddress& a) {
  return reinterpret_cast<const sockaddr_in&>(a.storage);
}
const sockaddr_in6& v6(const SocketAddress& a) {
  return reinterpret_cast<const sockaddr_in6&>(a.storage);
}

SocketAddress copy_of(const sockaddr* address, std::size_t length) {
  SocketAddress out;
  out.length = static_cast<socklen_t>(std::min(length, sizeof out.storage));
  std::memcpy(&out.storage, address, out.length);
  return out;
}

// What the thread that asks the system and the caller that may give up on it share.
struct Query {
  std::string name, service;
  bool is_loopback = false;  ///< Whatever the name.
  std::mutex mutex;
  std::condition_variable done_changed;
  bool done = false;
  int error = 0;
  std::vector<SocketAddress> found;

  void run(int flags) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV | flags;
    addrinfo* list = nullptr;
    const char* node = is_loopback ? nullptr : name.c_str();
    const int result = ::getaddrinfo(node, service.c_str(), &hints, &list);
    const std::lock_guard lock(mutex);
    for (const addrinfo* i = list; i != nullptr; i = i->ai_next) {
      found.push_back(copy_of(i->ai_addr, i->ai_addrlen));
    }
    if (list != nullptr) ::freeaddrinfo(list);
    error = result;
    done = true;
    done_changed.notify_all();
  }
};

int preference(const SocketAddress& a) {
  if (a.family() == AF_INET) return 0;
  return IN6_IS_ADDR_LINKLOCAL(&v6(a).sin6_addr) ? 2 : 1;
}

}  // namespace

std::uint16_t SocketAddress::port() const {
  if (family() == AF_INET) return ntohs(v4(*this).sin_port);
  return family() == AF_INET6 ? ntohs(v6(*this).sin6_port) : std::uint16_t{0};
}

void SocketAddress::set_port(std::uint16_t port) {
  if (family() == AF_INET) reinterpret_cast<sockaddr_in&>(storage).sin_port = htons(port);
  if (family() == AF_INET6) reinterpret_cast<sockaddr_in6&>(storage).sin6_port = htons(port);
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET) return (ntohl(v4(*this).sin_addr.s_addr) >> 24) == 127;
  if (family() != AF_INET6) return family() == AF_UNIX;
  const in6_addr& a = v6(*this).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&a) || (IN6_IS_ADDR_V4MAPPED(&a) && a.s6_addr[12] == 127);
}

bool SocketAddress::is_wildcard() const {
  if (family() == AF_INET) return v4(*this).sin_addr.s_addr == htonl(INADDR_ANY);
  return family() == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6(*this).sin6_addr);
}

std::string SocketAddress::host() const {
  if (family() == AF_UNIX) {
    const auto& un = reinterpret_cast<const sockaddr_un&>(storage);
    const std::size_t prefix = offsetof(sockaddr_un, sun_path) + 1;
    if (length <= prefix) return "unix:";
    return std::string(kUnix) + std::string(un.sun_path + 1, length - prefix);
  }
  char text[NI_MAXHOST] = "?";
  ::getnameinfo(raw(), length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

std::string SocketAddress::text() const {
  if (family() == AF_UNIX) return host();
  if (family() == AF_INET6) return "[" + host() + "]:" + std::to_string(port());
  return host() + ":" + std::to_string(port());
}

bool is_unix_address(std::string_view text) {
  return text.starts_with(kUnix);
}

bool names_this_host_only(const std::string& text) {
  SocketAddress a;
  return text == "localhost" || (parse_numeric(text, 0, a) && a.is_loopback());
}

bool parse_numeric(const std::string& text, std::uint16_t port, SocketAddress& out) {
  out = {};
  if (is_unix_address(text)) {
    const std::string_view name = std::string_view(text).substr(kUnix.size());
    auto& un = reinterpret_cast<sockaddr_un&>(out.storage);
    if (name.empty() || name.size() + 1 > sizeof un.sun_path) return false;
    un.sun_family = AF_UNIX;
    std::memcpy(un.sun_path + 1, name.data(), name.size());  // Behind a zero: the abstract space.
    out.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    return true;
  }
  // A scope ("fe80::1%eth0") is what inet_pton does not know; AI_NUMERICHOST asks nobody either.
  Query query;
  query.name = text;
  query.service = std::to_string(port);
  if (text.empty()) return false;
  query.run(AI_NUMERICHOST);
  if (query.found.empty()) return false;
  out = query.found.front();
  return true;
}

Result<std::vector<SocketAddress>> resolve(const std::string& name, std::uint16_t port,
                                           Deadline deadline) {
  std::vector<SocketAddress> one(1);
  if (parse_numeric(name, port, one.front())) return one;
  if (is_unix_address(name)) {
    return make_error(StatusCode::invalid_argument, 0,
                      "rendezvous: '%s' is not a socket name (1 to 107 characters)", name.c_str());
  }
  auto query = std::make_shared<Query>();
  query->name = name;
  query->service = std::to_string(port);
  // RFC 6761, 6.3: localhost is loopback, also where no hosts file says so, as in a bare container.
  query->is_loopback = name == "localhost";
  std::thread([query] { query->run(0); }).detach();

  std::unique_lock lock(query->mutex);
  // Not wait_until(never): that overflows in some libraries.
  if (!query->done_changed.wait_for(lock, deadline.remaining(), [&] { return query->done; })) {
    return make_error(StatusCode::timeout, 0, "rendezvous: the name '%s' was not resolved in time",
                      name.c_str());
  }
  if (query->error != 0 || query->found.empty()) {
    return make_error(StatusCode::rendezvous, 0, "rendezvous: cannot resolve '%s': %s",
                      name.c_str(), ::gai_strerror(query->error));
  }
  return std::move(query->found);
}

std::vector<SocketAddress> local_addresses(const std::string& interface, std::uint16_t port) {
  std::vector<SocketAddress> out;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return out;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0) continue;
    if (!interface.empty() && interface != i->ifa_name) continue;
    const int family = i->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    out.push_back(
        copy_of(i->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6)));
    out.back().set_port(port);
  }
  ::freeifaddrs(list);
  std::stable_sort(out.begin(), out.end(), [](const SocketAddress& a, const SocketAddress& b) {
    return preference(a) < preference(b);
  });
  return out;
}

bool outward_address(std::uint16_t port, SocketAddress& out) {
  // Connecting a datagram socket sends nothing: it only makes the kernel choose a source address.
  // 192.0.2.0/24 and 2001:db8::/32 are kept for documentation: no host has them.
  for (const char* anywhere : {"192.0.2.1", "2001:db8::1"}) {
    SocketAddress target;
    if (!parse_numeric(anywhere, 9, target)) continue;
    UniqueFd fd(::socket(target.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!fd || ::connect(fd.get(), target.raw(), target.length) != 0) continue;
    out = {};
    out.length = sizeof out.storage;
    if (::getsockname(fd.get(), out.raw(), &out.length) != 0 || out.is_loopback()) continue;
    out.set_port(port);
    return true;
  }
  for (const SocketAddress& a : local_addresses("", port)) {
    if (a.is_loopback()) continue;
    out = a;
    return true;
  }
  return false;
}

SocketAddress wildcard_address(int family, std::uint16_t port) {
  SocketAddress a;
  a.storage.ss_family = static_cast<sa_family_t>(family);
  a.length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  a.set_port(port);
  return a;
}

}  // namespace comm::detail
