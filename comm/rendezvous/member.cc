#include "comm/rendezvous/member.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "comm/rendezvous/process.h"
#include "comm/rendezvous/proof.h"
#include "comm/rendezvous/sockets.h"

namespace comm::detail {
namespace {

Status check_text(const char* what, const std::string& text) {
  if (text.size() <= Hello::kMaxText) return {};
  return make_error(StatusCode::invalid_argument, 0,
                    "rendezvous: the %s has %zu characters; %zu are the most", what, text.size(),
                    Hello::kMaxText);
}

}  // namespace

Member::Member(RendezvousConfig config)
    : config_(std::move(config)),
      log_(std::make_shared<Logger>(
          config_.log,
          levels_or_environment(config_.log_levels ? &*config_.log_levels : nullptr, config_.log),
          LogPart::rendezvous, config_.launch.rank, config_.launch.world_size)),
      self_(current_process()),
      down_(make_error(StatusCode::rendezvous, 0, "rendezvous: rank %d has not joined",
                       config_.launch.rank)) {}

Result<std::unique_ptr<Member>> Member::join(RendezvousConfig config) {
  if (Status s = config.launch.validate(); !s.ok()) return s;
  if (Status s = check_text("backend's name", config.backend); !s.ok()) return s;
  if (Status s = check_text("backend's version", config.backend_version); !s.ok()) return s;
  if (Status s = check_text("fingerprint", config.fingerprint); !s.ok()) return s;
  if (Status s = prepare_proofs(); !s.ok()) return s;
  std::unique_ptr<Member> member(new Member(std::move(config)));
  if (Status s = member->join_first(); !s.ok()) {
    member->leave();
    return s;
  }
  return member;
}

Status Member::join_first() {
  const LaunchConfig& launch = config_.launch;
  const Deadline deadline = Deadline::in(launch.init_timeout);
  std::uint64_t epoch = launch.epoch;
  if (rank() == 0 && epoch == LaunchConfig::kAnyEpoch) epoch = 0;
  if (rank() == 0 && !alone()) {
    if (Status s = start_service(epoch, deadline); !s.ok()) return s;
  }
  return enter_epoch(epoch, deadline);
}

Status Member::start_service(std::uint64_t epoch, Deadline deadline) {
  const LaunchConfig& launch = config_.launch;
  Result<std::shared_ptr<Listener>> listener = open_root_listener(launch, deadline, *log_);
  if (!listener.ok()) return std::move(listener).status();
  listener_ = std::move(*listener);
  if (!launch.rendezvous_file.empty()) {
    auto published = PublishedAddress::publish(launch.rendezvous_file, *listener_);
    if (!published.ok()) return std::move(published).status();
    published_ = std::move(*published);
  }
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
    return make_error(StatusCode::internal, errno, "rendezvous: no socket pair: %s",
                      error_text(errno).c_str());
  }
  local_.fd.reset(pair[0]);
  local_.reader = FrameReader(Side::root, false);
  HubConfig hub;
  hub.expected = {static_cast<std::uint32_t>(world_size()),
                  launch.job_id,
                  launch.secret,
                  config_.backend,
                  config_.backend_version,
                  config_.fingerprint};
  hub.local = hello(epoch);
  hub.epoch = epoch;
  hub.takes_epoch_of_others = launch.epoch == LaunchConfig::kAnyEpoch;
  hub.deadline = deadline;
  hub.handshake_timeout = launch.handshake_timeout;
  hub.peer_timeout = launch.peer_timeout;
  Result<std::unique_ptr<Hub>> started =
      Hub::start(std::move(hub), listener_, UniqueFd(pair[1]), log_);
  if (!started.ok()) return std::move(started).status();
  hub_ = std::move(*started);
  return {};
}

Hello Member::hello(std::uint64_t epoch) const {
  Hello hello;
  hello.rank = static_cast<std::uint32_t>(rank());
  hello.world_size = static_cast<std::uint32_t>(world_size());
  hello.epoch = epoch;
  hello.process = self_;
  hello.host = host_name();
  hello.job_id = config_.launch.job_id;
  hello.backend = config_.backend;
  hello.backend_version = config_.backend_version;
  hello.fingerprint = config_.fingerprint;
  return hello;
}

// Joins the epoch; the channel is there afterwards, or `down_` says why not.
Status Member::enter_epoch(std::uint64_t epoch, Deadline deadline) {
  if (alone()) {
    const std::lock_guard lock(mutex_);
    fill_random(session_);
    epoch_ = epoch == LaunchConfig::kAnyEpoch ? 0 : epoch;
    down_ = Status();
    return {};
  }
  Connector connector(config_.launch, hello(epoch), log_);
  Joined joined;
  Status status;
  if (rank() == 0) {
    joined = std::move(local_);
    status = connector.join_local(joined, epoch, deadline);
    if (!status.ok()) local_ = std::move(joined);
  } else {
    Result<Joined> result = connector.join(deadline);
    status = result.ok() ? Status() : result.status().copy();
    if (result.ok()) joined = std::move(*result);
    // Told that the others have gone on, this rank asks for the right epoch the next time.
    if (connector.epoch_hint() > 0) epoch_ = connector.epoch_hint() - 1;
  }
  const std::lock_guard lock(mutex_);
  if (!status.ok()) {
    down_ = status.copy();
    return status;
  }
  down_ = Status();
  epoch_ = joined.start.epoch;
  session_ = joined.start.session;
  log_->set_epoch(epoch_);
  channel_ = std::make_shared<Channel>(rank(), world_size(), self_, std::move(joined));
  return {};
}

std::shared_ptr<Channel> Member::channel() const {
  const std::lock_guard lock(mutex_);
  return channel_;
}

std::string Member::session() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const std::byte b : session_) text += format("%02x", std::to_integer<unsigned>(b));
  return text;
}

Result<ByteVector> Member::exchange(ExchangeKind kind, int root, ByteSpan payload,
                                    Milliseconds timeout) {
  if (alone()) {
    if (root != 0) {
      return make_error(StatusCode::invalid_argument, 0, "%s: root %d is no rank of a world of one",
                        to_string(kind), root);
    }
    if (payload.size() > max_contribution(1)) {
      return make_error(StatusCode::invalid_argument, 0,
                        "%s: %zu bytes are more than the %zu that one rank may send",
                        to_string(kind), payload.size(), max_contribution(1));
    }
    ByteWriter w;
    if (kind == ExchangeKind::all_gather) {
      w.number<std::uint32_t>(static_cast<std::uint32_t>(payload.size()));
    }
    w.bytes(payload);
    return std::move(w).take();
  }
  const std::shared_ptr<Channel> channel = this->channel();
  if (channel != nullptr) return channel->exchange(kind, root, payload, timeout);
  const std::lock_guard lock(mutex_);
  return down_.copy();
}

Result<ByteVector> Member::gather_among(const OutOfBand::Among& ranks, ByteSpan payload,
                                        Milliseconds timeout) {
  if (ranks.rank < 0 || ranks.rank >= ranks.size || ranks.size > world_size()) {
    return make_error(StatusCode::invalid_argument, 0,
                      "exchange among %d of %d ranks: rank %d is none of them", ranks.size,
                      world_size(), ranks.rank);
  }
  if (ranks.sums_last && payload.size() < sizeof(std::uint64_t)) {
    return make_error(StatusCode::invalid_argument, 0,
                      "exchange among %d ranks, rank %d: its last 8 bytes are to be summed, and it "
                      "has %zu",
                      ranks.size, ranks.rank, payload.size());
  }
  if (ranks.size == 1) return ByteVector(payload.begin(), payload.end());
  const std::shared_ptr<Channel> channel = this->channel();
  if (channel != nullptr)
    return channel->gather_among({ranks.id, ranks.number, static_cast<std::uint32_t>(ranks.rank),
                                  static_cast<std::uint32_t>(ranks.size), payload, ranks.sums_last},
                                 ranks.despite_failures, timeout);
  const std::lock_guard lock(mutex_);
  return down_.copy();
}

Status Member::check() {
  const std::shared_ptr<Channel> channel = this->channel();
  if (channel != nullptr) return channel->check();
  const std::lock_guard lock(mutex_);
  return down_.copy();
}

int Member::lost_rank() const {
  const std::shared_ptr<Channel> channel = this->channel();
  return channel == nullptr ? -1 : channel->lost_rank();
}

int Member::departed_rank() const {
  const std::shared_ptr<Channel> channel = this->channel();
  return channel == nullptr ? -1 : channel->departed_rank();
}

Departed Member::departure() const {
  const std::shared_ptr<Channel> channel = this->channel();
  return channel == nullptr ? Departed() : channel->departure();
}

void Member::call(std::uint64_t number) {
  if (const std::shared_ptr<Channel> channel = this->channel(); channel != nullptr)
    channel->call(number);
}

std::uint64_t Member::called() const {
  const std::shared_ptr<Channel> channel = this->channel();
  return channel == nullptr ? 0 : channel->called();
}

void Member::notify(std::string_view text) {
  const std::shared_ptr<Channel> channel = this->channel();
  if (channel != nullptr) return channel->notify(text);
  const std::lock_guard lock(mutex_);
  if (down_.ok()) {
    down_ = make_error(StatusCode::unhealthy, 0, "rank %d reported a failure: %s", rank(),
                       printable(text).c_str());
  }
}

Status Member::rejoin(Milliseconds timeout) {
  const std::lock_guard one_at_a_time(rejoin_mutex_);
  const Deadline deadline = Deadline::in(timeout);
  const std::uint64_t next = epoch() + 1;
  if (alone()) return enter_epoch(next, deadline);

  const std::shared_ptr<Channel> old = [&] {
    const std::lock_guard lock(mutex_);
    down_ = make_error(StatusCode::unhealthy, 0, "rank %d is rejoining", rank());
    return std::exchange(channel_, nullptr);
  }();
  if (rank() != 0) {
    if (old != nullptr) {
      old->notify("it gave up this epoch to rejoin");
      old->release();
    }
    return enter_epoch(next, deadline);
  }
  if (old != nullptr) local_ = old->release();
  Rejoin rejoin;
  rejoin.epoch = next;
  rejoin.timeout_ms = static_cast<std::uint32_t>(
      std::min<Milliseconds::rep>(deadline.remaining().count(), UINT32_MAX));
  if (!local_.fd || !send_all(local_.fd.get(), rejoin.encode(), deadline)) {
    const std::lock_guard lock(mutex_);
    down_ = make_error(StatusCode::internal, 0, "rendezvous: rank 0 has left; it cannot rejoin");
    return down_.copy();
  }
  return enter_epoch(next, deadline);
}

void Member::leave() {
  const std::shared_ptr<Channel> old = [&] {
    const std::lock_guard lock(mutex_);
    return channel_;
  }();
  // The channel stays, as one that has left, so that `check` goes on to say what it said.
  const std::uint64_t done = done_.load(std::memory_order_relaxed);
  if (old != nullptr) old->leave(done);
  if (local_.fd) {
    send_all(local_.fd.get(), Leave{done}.encode(), Deadline::in(Milliseconds(100)));
    local_.fd.reset();
  }
  hub_.reset();
  published_.reset();
  listener_.reset();
}

}  // namespace comm::detail
