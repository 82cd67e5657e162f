#include "tests/rendezvous/support.h"

#include <dirent.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "comm/rendezvous/address.h"
#include "comm/rendezvous/process.h"
#include "comm/rendezvous/proof.h"
#include "comm/rendezvous/sockets.h"

namespace comm::test {
namespace {

using detail::ByteSpan;
using detail::Deadline;
using detail::Moved;

char watched_name[256];

void bark(int) {
  [[maybe_unused]] ssize_t n = ::write(2, "HANGS: ", 7);
  n = ::write(2, watched_name, std::strlen(watched_name));
  n = ::write(2, "\n", 1);
  ::abort();
}

std::size_t count_entries(const char* path) {
  std::size_t count = 0;
  DIR* directory = ::opendir(path);
  while (::readdir(directory) != nullptr) ++count;
  ::closedir(directory);
  return count;
}

}  // namespace

Watchdog::Watchdog(const char* name, std::chrono::seconds limit) {
  std::strncpy(watched_name, name, sizeof watched_name - 1);
  ::signal(SIGALRM, bark);
  ::alarm(static_cast<unsigned>(limit.count()));
}

Watchdog::~Watchdog() {
  ::alarm(0);
}

std::function<void(std::string_view)> LogLines::sink() {
  return [this](std::string_view line) {
    const std::lock_guard lock(mutex_);
    lines_.emplace_back(line);
  };
}

bool LogLines::contains(std::string_view text) const {
  const std::lock_guard lock(mutex_);
  for (const std::string& line : lines_) {
    if (line.find(text) != std::string::npos) return true;
  }
  return false;
}

std::size_t LogLines::count() const {
  const std::lock_guard lock(mutex_);
  return lines_.size();
}

Job::Job(int world_size) : world_size_(world_size) {
  listener_ = std::move(*Listener::bind("127.0.0.1", 0));
  base.launch = LaunchConfig::local(0, world_size, listener_->port());
  base.launch.job_id = "job";
  base.launch.init_timeout = std::chrono::seconds(30);
  base.backend = "test";
  base.backend_version = "1";
  base.log = log.sink();
}

RendezvousConfig Job::config(int rank) const {
  RendezvousConfig config = base;
  config.launch.rank = config.launch.local_rank = rank;
  config.launch.world_size = config.launch.local_world_size = world_size_;
  if (rank == 0) config.launch.listener = listener_;
  return config;
}

void Job::run(const std::vector<int>& ranks, const std::function<void(int rank)>& body) const {
  std::vector<std::thread> threads;
  for (const int rank : ranks) threads.emplace_back([&body, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

void Job::run(const std::function<void(int rank)>& body) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < world_size_; ++rank) ranks.push_back(rank);
  run(ranks, body);
}

Stranger::Stranger(std::uint16_t port) {
  detail::SocketAddress address;
  detail::parse_numeric("127.0.0.1", port, address);
  fd_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(fd_.get(), address.raw(), address.length) != 0) fd_.reset();
}

bool Stranger::say(std::string_view bytes) {
  return say(std::as_bytes(std::span(bytes)));
}

bool Stranger::say(ByteSpan bytes) {
  return detail::send_all(fd_.get(), bytes, Deadline::in(std::chrono::seconds(10)));
}

bool Stranger::hear(detail::FrameType type, detail::ByteVector& body,
                    std::chrono::milliseconds timeout) {
  const Deadline deadline = Deadline::in(timeout);
  std::byte buffer[4096];
  for (;;) {
    detail::Frame frame;
    const detail::FrameReader::Outcome next = reader_.next(frame);
    if (next == detail::FrameReader::Outcome::malformed) return false;
    if (next == detail::FrameReader::Outcome::frame) {
      if (frame.type != type) continue;
      body.assign(frame.body.begin(), frame.body.end());
      return true;
    }
    if (!detail::poll_fd(fd_.get(), POLLIN, deadline)) return false;
    const Moved m = detail::receive(fd_.get(), buffer, sizeof buffer);
    if (m.kind != Moved::some) return false;
    reader_.append(ByteSpan(buffer, m.bytes));
  }
}

bool Stranger::introduce(detail::Hello hello, detail::Verdict& verdict, const std::string& secret) {
  detail::ByteVector body;
  detail::Greeting greeting;
  if (!hear(detail::FrameType::greeting, body) || !greeting.decode(body)) return false;
  if (!secret.empty()) hello.mac = detail::prove_worker(secret, greeting, hello);
  return say(detail::preface()) && say(hello.encode()) && hear(detail::FrameType::verdict, body) &&
         verdict.decode(body);
}

bool Stranger::is_hung_up(std::chrono::milliseconds timeout) {
  const Deadline deadline = Deadline::in(timeout);
  std::byte buffer[4096];
  while (detail::poll_fd(fd_.get(), POLLIN, deadline)) {
    const Moved m = detail::receive(fd_.get(), buffer, sizeof buffer);
    if (m.kind == Moved::closed || m.kind == Moved::error) return true;
  }
  return false;
}

void Stranger::reset() {
  const linger hard{1, 0};
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  fd_.reset();
}

detail::Hello hello_of(const RendezvousConfig& config) {
  detail::Hello hello;
  hello.rank = static_cast<std::uint32_t>(config.launch.rank);
  hello.world_size = static_cast<std::uint32_t>(config.launch.world_size);
  hello.epoch = config.launch.epoch;
  hello.remaining_ms = 30'000;
  static_cast<void>(detail::prepare_proofs());
  detail::fill_random(hello.instance);
  hello.process = detail::current_process();
  hello.job_id = config.launch.job_id;
  hello.host = "stranger";
  hello.backend = config.backend;
  hello.backend_version = config.backend_version;
  hello.fingerprint = config.fingerprint;
  return hello;
}

std::string text_of(const Bytes& bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::size_t open_descriptors() {
  return count_entries("/proc/self/fd");
}
std::size_t thread_count() {
  return count_entries("/proc/self/task");
}

}  // namespace comm::test
