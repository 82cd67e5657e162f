#include "comm/testing/simulated/nccl/link.h"

#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>
#include <utility>

#include "comm/testing/simulated/nccl/endpoint.h"

namespace comm::simulated::detail {
namespace {

struct Hello {
  std::uint64_t endpoint = 0;
  std::int32_t from = 0;
};

struct Frame {
  std::int32_t from = 0;
  Channel channel = Channel::collective;
  std::uint64_t sequence = 0;
  Call call;
  std::uint64_t bytes = 0;
  std::int32_t has_data = 0;
};

struct Process {
  std::mutex mutex;
  std::uint64_t token = 0;
  int listener = -1;
};

Process& process() {
  static Process& process = *new Process;
  return process;
}

// The parent's token and listener are not the child's, and neither is the thread that serves it.
void after_fork() {
  Process& mine = process();
  if (mine.listener != -1) close(mine.listener);
  mine.listener = -1;
  mine.token = 0;
}

std::string link_name(std::uint64_t token) {
  char name[64];
  std::snprintf(name, sizeof(name), "comm-sim-process-%016llx",
                static_cast<unsigned long long>(token));
  return name;
}

socklen_t fill(sockaddr_un* address, const std::string& name) {
  *address = {};
  address->sun_family = AF_UNIX;
  // The leading zero makes it abstract.
  const std::size_t length = std::min(name.size(), sizeof(address->sun_path) - 1);
  std::memcpy(address->sun_path + 1, name.data(), length);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

void read_messages(int descriptor) {
  Hello hello;
  if (!read_all(descriptor, &hello, sizeof(hello))) {
    close(descriptor);
    return;
  }
  const std::weak_ptr<Endpoint> to = Endpoint::find(hello.endpoint);
  Frame frame;
  while (read_all(descriptor, &frame, sizeof(frame))) {
    Message message;
    message.from = frame.from;
    message.channel = frame.channel;
    message.sequence = frame.sequence;
    message.call = frame.call;
    if (frame.has_data != 0) {
      const auto data = std::make_shared<Bytes>(frame.bytes);
      if (!read_all(descriptor, data->data(), data->size())) break;
      message.data = data;
    }
    const std::shared_ptr<Endpoint> endpoint = to.lock();
    if (endpoint == nullptr) break;
    endpoint->deliver(std::move(message));
  }
  close(descriptor);
  if (const std::shared_ptr<Endpoint> endpoint = to.lock()) endpoint->lost(hello.from);
}

void accept_links(int listener) {
  for (;;) {
    const int descriptor = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (descriptor < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return;
    }
    std::thread(read_messages, descriptor).detach();
  }
}

}  // namespace

std::uint64_t process_token() {
  Process& mine = process();
  const std::lock_guard lock(mine.mutex);
  if (mine.token != 0) return mine.token;
  static const int once = pthread_atfork(nullptr, nullptr, after_fork);
  static_cast<void>(once);
  std::random_device random;
  const std::uint64_t token = (std::uint64_t{random()} << 32 | random()) | 1;
  mine.listener = listen_on(link_name(token));
  if (mine.listener == -1) {
    std::fprintf(stderr, "comm-sim: cannot listen on a Unix socket: %s\n", std::strerror(errno));
    return 0;
  }
  mine.token = token;
  std::thread(accept_links, mine.listener).detach();
  return token;
}

std::shared_ptr<Link> Link::open(std::uint64_t process, std::uint64_t endpoint, int from) {
  const int descriptor = connect_to(link_name(process));
  if (descriptor == -1) return nullptr;
  auto link = std::make_shared<Link>(descriptor);
  const Hello hello{endpoint, from};
  return write_all(descriptor, &hello, sizeof(hello)) ? link : nullptr;
}

Link::~Link() {
  close(descriptor_);
}

bool Link::send(const Message& message) {
  Frame frame;
  frame.from = message.from;
  frame.channel = message.channel;
  frame.sequence = message.sequence;
  frame.call = message.call;
  frame.bytes = message.data == nullptr ? 0 : message.data->size();
  frame.has_data = message.data != nullptr ? 1 : 0;
  const std::lock_guard lock(mutex_);
  return write_all(descriptor_, &frame, sizeof(frame)) &&
         (message.data == nullptr ||
          write_all(descriptor_, message.data->data(), message.data->size()));
}

int listen_on(const std::string& name) {
  sockaddr_un address;
  const socklen_t size = fill(&address, name);
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor == -1) return -1;
  if (bind(descriptor, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
      listen(descriptor, 1024) == 0) {
    return descriptor;
  }
  close(descriptor);
  return -1;
}

int connect_to(const std::string& name) {
  sockaddr_un address;
  const socklen_t size = fill(&address, name);
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor == -1) return -1;
  if (connect(descriptor, reinterpret_cast<sockaddr*>(&address), size) == 0) return descriptor;
  close(descriptor);
  return -1;
}

bool read_all(int descriptor, void* bytes, std::size_t size) {
  char* at = static_cast<char*>(bytes);
  while (size > 0) {
    const ssize_t done = recv(descriptor, at, size, 0);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    size -= static_cast<std::size_t>(done);
  }
  return true;
}

bool write_all(int descriptor, const void* bytes, std::size_t size) {
  const char* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t done = ::send(descriptor, at, size, MSG_NOSIGNAL);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    size -= static_cast<std::size_t>(done);
  }
  return true;
}

}  // namespace comm::simulated::detail
