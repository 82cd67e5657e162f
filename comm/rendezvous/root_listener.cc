#include "comm/rendezvous/root_listener.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>

#include "comm/rendezvous/address.h"
#include "comm/rendezvous/sockets.h"

namespace comm::detail {
namespace {

std::shared_ptr<Listener> wrap(UniqueFd fd) {
  const SocketAddress bound = local_address(fd.get());
  return std::make_shared<Listener>(std::move(fd), bound.host(), bound.port());
}

bool is_own(const SocketAddress& address) {
  if (address.is_loopback() || address.is_wildcard()) return true;
  const std::vector<SocketAddress> own = local_addresses("", address.port());
  return std::any_of(own.begin(), own.end(),
                     [&](const SocketAddress& o) { return o.text() == address.text(); });
}

Result<std::shared_ptr<Listener>> listen_everywhere(std::uint16_t port, const std::string& why,
                                                    Logger& log) {
  log.say(LogLevel::warn, "listening on all addresses, port %u, since %s; COMM_BIND chooses one",
          port, why.c_str());
  // Takes IPv4 as well; where the kernel has no IPv6, IPv4 alone.
  Result<UniqueFd> fd = listen_on(wildcard_address(AF_INET6, port), 4096);
  if (!fd.ok() && fd.status().native_code() == EAFNOSUPPORT) {
    fd = listen_on(wildcard_address(AF_INET, port), 4096);
  }
  if (!fd.ok()) return std::move(fd).status();
  return wrap(std::move(*fd));
}

Result<std::shared_ptr<Listener>> choose(const LaunchConfig& launch, Deadline deadline,
                                         Logger& log) {
  if (launch.listener != nullptr) return launch.listener;
  if (launch.listen_fd >= 0) return Listener::adopt(launch.listen_fd);
  const std::uint16_t port = launch.rendezvous_file.empty() ? launch.root_port : std::uint16_t{0};
  if (!launch.bind_address.empty()) return Listener::bind(launch.bind_address, port);

  const bool many_hosts = launch.local_world_size < launch.world_size;
  if (!launch.rendezvous_file.empty()) {
    SocketAddress outward;
    if (!many_hosts || !outward_address(0, outward)) return Listener::bind("127.0.0.1", 0);
    return Listener::bind(outward.host(), 0);
  }
  // Rank 0's own name may not be known yet, as in Kubernetes; it must not wait for that, since the
  // name may appear only once it listens.
  Result<std::vector<SocketAddress>> found =
      resolve(launch.root_address, port, deadline.earlier(Deadline::in(Milliseconds(5000))));
  if (!found.ok()) {
    return listen_everywhere(port, "'" + launch.root_address + "' is not resolved yet", log);
  }
  const bool said_in_numbers = names_this_host_only(launch.root_address);
  Status first;
  bool only_loopback = false;
  for (const SocketAddress& address : *found) {
    if (!is_own(address)) continue;
    if (address.is_loopback() && many_hosts && !said_in_numbers) {
      only_loopback = true;
      continue;
    }
    Result<UniqueFd> fd = listen_on(address, 4096);
    if (fd.ok()) return wrap(std::move(*fd));
    if (first.ok()) first = std::move(fd).status();
  }
  if (!first.ok()) return first;
  return listen_everywhere(port,
                           only_loopback
                               ? "'" + launch.root_address +
                                     "' stands for loopback on this host and the job "
                                     "has several hosts"
                               : "'" + launch.root_address + "' is no address of this host's own",
                           log);
}

}  // namespace

Result<std::shared_ptr<Listener>> open_root_listener(const LaunchConfig& launch, Deadline deadline,
                                                     Logger& log) {
  Result<std::shared_ptr<Listener>> listener = choose(launch, deadline, log);
  if (!listener.ok()) return listener;
  if (launch.secret.empty() && !local_address((*listener)->fd()).is_loopback()) {
    log.say(LogLevel::warn,
            "listening on %s port %u without a secret: whoever reaches it can join; set "
            "COMM_SECRET or COMM_SECRET_FILE",
            (*listener)->address().c_str(), (*listener)->port());
  }
  return listener;
}

Result<std::unique_ptr<PublishedAddress>> PublishedAddress::publish(const std::string& path,
                                                                    const Listener& listener) {
  std::string content;
  SocketAddress bound = local_address(listener.fd());
  if (bound.is_wildcard()) {
    for (const SocketAddress& own : local_addresses("", bound.port())) {
      if (!own.is_loopback()) content += own.host() + " " + std::to_string(own.port()) + "\n";
    }
  } else {
    content = bound.host() + " " + std::to_string(bound.port()) + "\n";
  }
  content += "end\n";

  const std::string draft = path + "." + std::to_string(::getpid());
  UniqueFd fd(::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  bool written = fd && ::write(fd.get(), content.data(), content.size()) ==
                           static_cast<ssize_t>(content.size());
  written = written && ::fsync(fd.get()) == 0 && ::rename(draft.c_str(), path.c_str()) == 0;
  if (!written) {
    const int e = errno;
    if (fd) ::unlink(draft.c_str());
    return make_error(StatusCode::rendezvous, e,
                      "rendezvous: rank 0 cannot publish its address in '%s': %s", path.c_str(),
                      error_text(e).c_str());
  }
  return std::unique_ptr<PublishedAddress>(new PublishedAddress(path, std::move(content)));
}

PublishedAddress::~PublishedAddress() {
  std::ifstream file(path_);
  const std::string now((std::istreambuf_iterator<char>(file)), {});
  if (now == content_) ::unlink(path_.c_str());
}

std::vector<HostAndPort> read_published(const std::string& path) {
  std::vector<HostAndPort> out;
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line) && out.size() < 64) {
    if (line == "end") return out;
    std::istringstream words(line);
    HostAndPort entry;
    if (words >> entry.host >> entry.port) out.push_back(std::move(entry));
  }
  return {};
}

}  // namespace comm::detail
