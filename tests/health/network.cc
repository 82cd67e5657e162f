#include "tests/health/network.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

std::atomic<int> entered{-1};  // The namespace for TCP sockets of this process.
std::atomic<int> outer{-1};    // Everything else's.

bool write_file(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool done = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  return done;
}

// As its root the owner may do to the new network what root may.
bool leave_network() {
  if (unshare(CLONE_NEWNET) == 0) return true;
  const std::string user = std::to_string(geteuid()), group = std::to_string(getegid());
  return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 && write_file("/proc/self/setgroups", "deny") &&
         write_file("/proc/self/uid_map", "0 " + user + " 1") &&
         write_file("/proc/self/gid_map", "0 " + group + " 1");
}

int this_network() {
  return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

bool ip(const std::string& words, std::string& why) {
  const std::string command =
      "PATH=$PATH:/usr/sbin:/sbin; export PATH; ip " + words + " 2>&1 </dev/null";
  std::FILE* output = popen(command.c_str(), "re");
  if (output == nullptr) return false;
  char text[256] = "";
  const std::size_t size = std::fread(text, 1, sizeof text - 1, output);
  if (pclose(output) == 0) return true;
  why = "ip " + words + ": " + std::string(text, size);
  return false;
}

std::string port_of(int rank) {
  return "port" + std::to_string(rank);
}

}  // namespace

// A thread is in one network at a time, and a socket stays in the one it was made in.
extern "C" int socket(int domain, int type, int protocol) noexcept {
  const bool moves = entered.load() >= 0 && (domain == AF_INET || domain == AF_INET6);
  if (moves && setns(entered.load(), CLONE_NEWNET) != 0) std::abort();
  const int fd = static_cast<int>(syscall(SYS_socket, domain, type, protocol));
  const int e = errno;
  if (moves && setns(outer.load(), CLONE_NEWNET) != 0) std::abort();
  errno = e;
  return fd;
}

namespace comm::test {

std::unique_ptr<Network> Network::make(int ranks, std::string& why) {
  if (!leave_network()) {
    why = std::string("no network namespaces here: ") + std::strerror(errno);
    return nullptr;
  }
  std::unique_ptr<Network> network(new Network(ranks));
  return network->build(why) ? std::move(network) : nullptr;
}

bool Network::build(std::string& why) {
  own_ = this_network();
  outer.store(own_);
  control_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (own_ < 0 || control_ < 0 || !ip("link set lo up", why) ||
      !ip("link add name bridge0 type bridge", why) || !ip("link set bridge0 up", why) ||
      !ip("link add name bridge1 type bridge", why) || !ip("link set bridge1 up", why))
    return false;
  for (int r = 0; r < static_cast<int>(namespaces_.size()); ++r) {
    int& of_rank = namespaces_[static_cast<std::size_t>(r)];
    if (unshare(CLONE_NEWNET) != 0) return false;
    of_rank = this_network();
    if (of_rank < 0 || setns(own_, CLONE_NEWNET) != 0) return false;
    const std::string path = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(of_rank);
    if (!ip("link add name " + port_of(r) + " type veth peer name eth0 netns " + path, why) ||
        !ip("link set " + port_of(r) + " master bridge0 up", why) ||
        setns(of_rank, CLONE_NEWNET) != 0)
      return false;
    const bool is_up = ip("link set lo up", why) &&
                       ip("address add " + address_of(r) + "/24 dev eth0", why) &&
                       ip("link set eth0 up", why);
    if (setns(own_, CLONE_NEWNET) != 0 || !is_up) return false;
  }
  return true;
}

Network::~Network() {
  for (const int fd : namespaces_)
    if (fd >= 0) close(fd);
  if (control_ >= 0) close(control_);
  // `own_` stays open: sockets that are made later still have to come back to it.
}

std::shared_ptr<Listener> Network::listen() const {
  enter(0);
  auto listener = Listener::bind(address_of(0), 0);
  entered.store(-1);
  return listener.ok() ? std::move(*listener) : nullptr;
}

void Network::enter(int rank) const {
  entered.store(namespaces_[static_cast<std::size_t>(rank)]);
}

void Network::cut(int rank, Cut how) const {
  if (how == Cut::dark) return power(rank, false);
  unplug(rank);
  if (how == Cut::other_side) plug_into(1, rank);
}

void Network::mend(int rank) const {
  power(rank, true);
  unplug(rank);
  plug_into(0, rank);
}

void Network::unplug(int rank) const {
  ask_bridge(0, SIOCBRDELIF, rank);
  ask_bridge(1, SIOCBRDELIF, rank);
}

void Network::plug_into(int bridge, int rank) const {
  ask_bridge(bridge, SIOCBRADDIF, rank);
}

void Network::ask_bridge(int bridge, unsigned long request, int rank) const {
  ifreq port{};
  std::snprintf(port.ifr_name, sizeof port.ifr_name, "%s", port_of(rank).c_str());
  if (ioctl(control_, SIOCGIFINDEX, &port) != 0) std::abort();
  ifreq to{};
  std::snprintf(to.ifr_name, sizeof to.ifr_name, "bridge%d", bridge);
  to.ifr_ifindex = port.ifr_ifindex;
  // EINVAL: it is not plugged in there.
  if (ioctl(control_, request, &to) != 0 && errno != EINVAL) std::abort();
}

void Network::power(int rank, bool on) const {
  ifreq port{};
  std::snprintf(port.ifr_name, sizeof port.ifr_name, "%s", port_of(rank).c_str());
  if (ioctl(control_, SIOCGIFFLAGS, &port) != 0) std::abort();
  port.ifr_flags = static_cast<short>(on ? port.ifr_flags | IFF_UP : port.ifr_flags & ~IFF_UP);
  if (ioctl(control_, SIOCSIFFLAGS, &port) != 0) std::abort();
}

}  // namespace comm::test
