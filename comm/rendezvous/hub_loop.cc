#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "comm/rendezvous/hub.h"
#include "comm/rendezvous/process.h"
#include "comm/rendezvous/proof.h"
#include "comm/rendezvous/sockets.h"

namespace comm::detail {
namespace {

// What an epoll event belongs to: a connection's id, with this bit for its process; or the listener.
constexpr std::uint64_t kProcessBit = std::uint64_t{1} << 63;
constexpr std::uint64_t kListener = ~std::uint64_t{0};
constexpr std::uint64_t kLocal = 0;

constexpr int kAcceptsAtOnce = 64;
constexpr int kReadsAtOnce = 4;

std::size_t stranger_limit(std::uint32_t world_size) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 256;
  // Half of what the process may open beside its ranks, so that strangers cannot keep the engine
  // from opening its own files.
  const rlim_t rest = limit.rlim_cur > world_size ? limit.rlim_cur - world_size : 0;
  return std::clamp<std::size_t>(static_cast<std::size_t>(rest / 2), 16, 4096);
}

}  // namespace

Hub::Hub(HubConfig config, std::shared_ptr<Listener> listener, std::shared_ptr<Logger> log)
    : config_(std::move(config)),
      listener_(std::move(listener)),
      log_(std::move(log)),
      self_(current_process()),
      max_strangers_(stranger_limit(config_.expected.world_size)),
      slots_(config_.expected.world_size),
      exchanges_(config_.expected.world_size, [this](std::uint32_t rank, const SharedFrame& frame) {
        if (slots_[rank].kind != Slot::joined) return;
        slots_[rank].connection->send(frame);
        touched_.push_back(slots_[rank].connection->id);
      }) {}

Result<std::unique_ptr<Hub>> Hub::start(HubConfig config, std::shared_ptr<Listener> listener,
                                        UniqueFd local, std::shared_ptr<Logger> log) {
  std::unique_ptr<Hub> hub(new Hub(std::move(config), std::move(listener), std::move(log)));
  if (Status s = hub->prepare(std::move(local)); !s.ok()) return s;

  // The engine's signal handlers are for the engine's threads.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  hub->thread_ = std::thread([raw = hub.get()] { raw->run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return hub;
}

Status Hub::prepare(UniqueFd local) {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  auto connection = std::make_unique<Connection>(kLocal, std::move(local), "this process", false);
  connection->hello = config_.local;
  const int fd = connection->fd.get();
  connections_.emplace(kLocal, std::move(connection));
  if (!epoll_ || !watch(listener_->fd(), kListener, EPOLLIN) || !watch(fd, kLocal, EPOLLIN)) {
    return make_error(StatusCode::internal, errno, "rendezvous: rank 0 cannot use epoll: %s",
                      error_text(errno).c_str());
  }
  return {};
}

Hub::~Hub() {
  if (thread_.joinable()) thread_.join();
}

bool Hub::watch(int fd, std::uint64_t token, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return true;
  return errno == EEXIST && ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0;
}

void Hub::run() {
  ::pthread_setname_np(::pthread_self(), "comm-rendezvous");
  begin_forming(config_.epoch, config_.deadline);
  flush_and_bury();
  std::array<epoll_event, 256> events;
  while (!stopping_) {
    const int n =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait_time());
    for (int i = 0; i < n && !stopping_; ++i) {
      dispatch(events[static_cast<std::size_t>(i)].data.u64,
               events[static_cast<std::size_t>(i)].events);
    }
    if (stopping_) break;
    run_timers();
    flush_and_bury();
  }
  close_all();
}

void Hub::dispatch(std::uint64_t token, std::uint32_t events) {
  if (token == kListener) return accept_some();
  const auto found = connections_.find(token & ~kProcessBit);
  if (found == connections_.end()) return;
  Connection& c = *found->second;
  if (c.state == State::dead) return;
  if ((events & EPOLLOUT) != 0) touched_.push_back(c.id);
  if (token == c.id && (events & ~static_cast<std::uint32_t>(EPOLLOUT)) == 0) return;
  read_from(c);
  // Its last words were read above; if goodbye was among them it is no member any more.
  if ((token & kProcessBit) != 0 && c.state == State::member) {
    // What was still on its way is in the socket since before the process ended: read to the end.
    while (c.state == State::member && poll_fd(c.fd.get(), POLLIN, Deadline::in(Milliseconds(0)))) {
      read_from(c);
    }
    if (c.state == State::member) lose(c, "its process has ended");
  } else if ((token & kProcessBit) != 0) {
    c.process.reset();
  }
}

void Hub::accept_some() {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    const int fd = ::accept4(listener_->fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      admit_socket(UniqueFd(fd));
      continue;
    }
    const int e = errno;
    if (e == EAGAIN || e == EWOULDBLOCK) return;
    if (e == EMFILE || e == ENFILE || e == ENOBUFS || e == ENOMEM) {
      log_->say_limited(LogLevel::warn, "cannot accept a connection: %s", error_text(e).c_str());
      if (evict_oldest_stranger("descriptors are short")) continue;
      // The waiting connection would wake the loop without end; look again in a moment.
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_->fd(), nullptr);
      accept_paused_ = true;
      accept_paused_until_ = Deadline::in(Milliseconds(50));
      return;
    }
    // EINTR, or a connection that died in the queue.
  }
}

void Hub::admit_socket(UniqueFd fd) {
  const SocketAddress peer = peer_address(fd.get());
  if (!peer_is_trusted_user(fd.get())) {
    log_->say_limited(LogLevel::warn, "turned away a process of another user");
    return;
  }
  if (stranger_count_ >= max_strangers_) evict_oldest_stranger("too many at once");
  const std::uint64_t id = next_id_++;
  auto connection = std::make_unique<Connection>(id, std::move(fd), peer.text(), true);
  Connection& c = *connection;
  c.deadline = Deadline::in(config_.handshake_timeout);
  c.greeting.demands_secret = !config_.expected.secret.empty();
  fill_random(c.greeting.nonce);
  if (!watch(c.fd.get(), id, EPOLLIN)) return;
  connections_.emplace(id, std::move(connection));
  strangers_.push_back(id);
  ++stranger_count_;
  ByteWriter hail;
  hail.bytes(preface());
  hail.bytes(c.greeting.encode());
  c.send(std::move(hail).take());
  touched_.push_back(id);
}

bool Hub::evict_oldest_stranger(const char* why) {
  while (!strangers_.empty()) {
    const auto found = connections_.find(strangers_.front());
    strangers_.pop_front();
    if (found == connections_.end()) continue;
    Connection& c = *found->second;
    if (c.state != State::handshaking && c.state != State::closing) continue;
    log_->say_limited(LogLevel::warn, "dropped %s in its handshake: %s", c.peer.c_str(), why);
    --stranger_count_;
    connections_.erase(found);
    return true;
  }
  return false;
}

void Hub::read_from(Connection& c) {
  std::array<std::byte, 16 * 1024> buffer;
  for (int i = 0; i < kReadsAtOnce && c.state != State::dead; ++i) {
    const Moved m = receive(c.fd.get(), buffer.data(), buffer.size());
    if (m.kind == Moved::would_block) return;
    if (m.kind == Moved::some) {
      if (c.state == State::closing) continue;
      c.reader.append(ByteSpan(buffer.data(), m.bytes));
      if (!handle_frames(c)) return;
      if (m.bytes < buffer.size()) return;
      continue;
    }
    // A silence that sending met is not said again.
    const bool is_error = m.kind == Moved::error;
    if (is_silence(is_error ? m.errno_value : c.problem_errno)) return lose(c, describe_silence(c));
    return lose(c, is_error ? "connection failed: " + error_text(m.errno_value)
                            : "it closed the connection");
  }
}

bool Hub::handle_frames(Connection& c) {
  Frame frame;
  for (;;) {
    if (c.state == State::closing || c.state == State::dead || stopping_) return false;
    switch (c.reader.next(frame)) {
      case FrameReader::Outcome::incomplete: return true;
      case FrameReader::Outcome::malformed: lose(c, c.reader.complaint()); return false;
      case FrameReader::Outcome::frame: break;
    }
    if (c.state == State::handshaking) {
      on_hello(c, frame);
    } else {
      on_member_frame(c, frame);
    }
  }
}

void Hub::bury(Connection& c) {
  set_state(c, State::dead);
  touched_.push_back(c.id);
}

void Hub::set_state(Connection& c, State state) {
  const auto is_stranger = [](State s) { return s == State::handshaking || s == State::closing; };
  stranger_count_ -= is_stranger(c.state) ? 1 : 0;
  stranger_count_ += is_stranger(state) ? 1 : 0;
  c.state = state;
}

void Hub::flush_and_bury() {
  // Burying one may write to others, so the list can grow while it is worked off.
  for (std::size_t i = 0; i < touched_.size(); ++i) {
    const auto found = connections_.find(touched_[i]);
    if (found == connections_.end()) continue;
    Connection& c = *found->second;
    if (c.state != State::dead && !c.flush()) {
      // Its last words, which may say why, are still to be read.
      if (c.state == State::member) read_from(c);
      lose(c, is_silence(c.problem_errno) ? describe_silence(c)
                                          : "sending failed: " + error_text(c.problem_errno));
    }
    if (c.state == State::dead) {
      if (!c.is_local()) connections_.erase(found);
      continue;
    }
    if (c.has_output() != c.wants_write) {
      epoll_event event{};
      event.events = EPOLLIN | (c.has_output() ? EPOLLOUT : 0u);
      event.data.u64 = c.id;
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, c.fd.get(), &event);
      c.wants_write = c.has_output();
    }
    if (c.state == State::closing && !c.has_output()) ::shutdown(c.fd.get(), SHUT_WR);
  }
  touched_.clear();
}

int Hub::wait_time() {
  Deadline next = exchanges_.next_deadline().earlier(forming_deadline_).earlier(offence_deadline_);
  next = next.earlier(progress_due_).earlier(accept_paused_until_);
  for (const auto& [rank, connection] : parked_) next = next.earlier(connection->deadline);
  // Nothing announces an acknowledgement.
  if (!doubts_.empty()) next = next.earlier(Deadline::in(Milliseconds(20)));
  while (!strangers_.empty()) {
    const auto found = connections_.find(strangers_.front());
    if (found != connections_.end() &&
        (found->second->state == State::handshaking || found->second->state == State::closing)) {
      next = next.earlier(found->second->deadline);
      break;
    }
    strangers_.pop_front();
  }
  return next.when() == Clock::time_point::max() ? -1 : next.poll_timeout();
}

void Hub::run_timers() {
  if (accept_paused_ && accept_paused_until_.passed()) {
    accept_paused_ = false;
    accept_paused_until_ = Deadline::never();
    watch(listener_->fd(), kListener, EPOLLIN);
  }
  while (!strangers_.empty()) {
    const auto found = connections_.find(strangers_.front());
    if (found != connections_.end()) {
      Connection& c = *found->second;
      const bool stranger = c.state == State::handshaking || c.state == State::closing;
      if (stranger && !c.deadline.passed()) break;
      if (c.state == State::closing) bury(c);
      if (c.state == State::handshaking) lose(c, "no complete hello in time");
    }
    strangers_.pop_front();
  }
  exchanges_.expire();
  settle_doubts();
  formation_timers();
}

}  // namespace comm::detail
