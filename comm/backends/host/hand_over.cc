#include "comm/backends/host/hand_over.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "comm/backends/host/layout.h"
#include "comm/backends/host/waiting.h"

namespace comm::detail::host {

namespace {

constexpr std::int64_t kCheckEvery = 100'000'000;
constexpr std::size_t kMostStrangers = 64;

struct Hello {
  HandOver::Token token;
  std::int32_t rank;
};

Status system_error(const char* what) {
  return make_error(StatusCode::internal, errno,
                    "Host cannot hand over the shared memory: %s failed: %s", what,
                    std::strerror(errno));
}

socklen_t address_of(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;  // sun_path[0] stays zero: the abstract namespace.
  const std::size_t n = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), n);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + n);
}

bool is_same_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

Status send_descriptor(int socket, int fd) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  return sendmsg(socket, &message, MSG_NOSIGNAL) == 1 ? Status() : system_error("sendmsg");
}

/// An empty one where the other side hung up.
UniqueFd take_descriptor(int socket) {
  char byte = 0;
  iovec data{&byte, 1};
  int fd = -1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return UniqueFd();
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return UniqueFd();
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return UniqueFd(fd);
}

/// Polls until something is there, `check` fails or the deadline passes.
Status poll_until(std::vector<pollfd>& sockets, std::int64_t deadline_ns, const char* what,
                  const std::function<Status()>& check) {
  for (;;) {
    const std::int64_t left = deadline_ns - now_ns();
    const std::int64_t wait = std::clamp<std::int64_t>(left, 0, kCheckEvery) / 1'000'000;
    const int n = poll(sockets.data(), sockets.size(), static_cast<int>(wait));
    if (n > 0) return {};
    if (n < 0 && errno != EINTR) return system_error("poll");
    Status ended = check();
    if (!ended.ok()) return ended;
    if (left <= 0)
      return make_error(StatusCode::timeout, 0,
                        "Host cannot hand over the shared memory: %s in time", what);
  }
}

}  // namespace

Result<HandOver> HandOver::listen(const std::string& name) {
  HandOver made;
  if (getrandom(made.token_.data(), made.token_.size(), 0) !=
      static_cast<ssize_t>(made.token_.size()))
    return system_error("getrandom");
  made.listener_.reset(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.listener_) return system_error("socket");
  sockaddr_un address;
  const socklen_t size = address_of(name, address);
  if (bind(made.listener_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0)
    return system_error("bind");
  if (::listen(made.listener_.get(), 2 * kMaxRanks) != 0) return system_error("listen");
  return made;
}

Status HandOver::serve(int fd, int size, std::int64_t deadline_ns,
                       const std::function<Status()>& check) {
  std::vector<UniqueFd> guests;
  std::uint64_t missing = 0;
  for (int r = 1; r < size; ++r) missing |= std::uint64_t{1} << r;
  while (missing != 0) {
    std::vector<pollfd> sockets{{listener_.get(), POLLIN, 0}};
    for (const UniqueFd& guest : guests) sockets.push_back({guest.get(), POLLIN, 0});
    Status ready = poll_until(sockets, deadline_ns, "not all ranks came for it", check);
    if (!ready.ok()) return ready;
    for (std::size_t i = guests.size(); i-- > 0;) {
      if (sockets[i + 1].revents == 0) continue;
      const UniqueFd guest = std::move(guests[i]);
      guests.erase(guests.begin() + static_cast<std::ptrdiff_t>(i));
      Hello hello{};
      const bool known = recv(guest.get(), &hello, sizeof hello, 0) == sizeof hello &&
                         hello.token == token_ && hello.rank > 0 && hello.rank < size;
      if (!known) continue;
      Status sent = send_descriptor(guest.get(), fd);
      if (!sent.ok()) return sent;
      missing &= ~(std::uint64_t{1} << hello.rank);
    }
    UniqueFd guest(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!guest || !is_same_user(guest.get())) continue;
    // Whoever has been silent longest makes room: a rank says who it is at once.
    if (guests.size() == kMostStrangers + static_cast<std::size_t>(size))
      guests.erase(guests.begin());
    guests.push_back(std::move(guest));
  }
  return {};
}

Result<UniqueFd> HandOver::receive(const std::string& name, const Token& token, int rank,
                                   std::int64_t deadline_ns, const std::function<Status()>& check) {
  UniqueFd connection(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!connection) return system_error("socket");
  sockaddr_un address;
  const socklen_t size = address_of(name, address);
  if (connect(connection.get(), reinterpret_cast<sockaddr*>(&address), size) != 0)
    return make_error(StatusCode::rendezvous, errno,
                      "Host on rank %d cannot reach rank 0 on this machine (%s): the ranks of Host "
                      "must share one machine and one network namespace; use Nccl between machines",
                      rank, std::strerror(errno));
  if (!is_same_user(connection.get()))
    return make_error(StatusCode::rendezvous, EPERM,
                      "Host on rank %d: rank 0 runs as another user; all ranks must be of one user",
                      rank);
  const Hello hello{token, rank};
  if (send(connection.get(), &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello)
    return system_error("send");
  std::vector<pollfd> sockets{{connection.get(), POLLIN, 0}};
  Status ready = poll_until(sockets, deadline_ns, "rank 0 did not send it", check);
  if (!ready.ok()) return ready;
  UniqueFd fd = take_descriptor(connection.get());
  if (!fd)
    return make_error(StatusCode::rendezvous, 0,
                      "Host on rank %d: rank 0 closed the connection instead of handing over the "
                      "shared memory (is it of another user?)",
                      rank);
  return fd;
}

}  // namespace comm::detail::host
