#include "comm/rendezvous/channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "comm/rendezvous/log.h"
#include "comm/rendezvous/process.h"
#include "comm/rendezvous/sockets.h"

namespace comm::detail {

Channel::Channel(int rank, int world_size, const ProcessId& self, Joined joined)
    : rank_(rank),
      world_size_(world_size),
      start_(joined.start),
      fd_(std::move(joined.fd)),
      root_process_(watch_process(joined.root, self)),
      reader_(std::move(joined.reader)) {}

std::string Channel::describe(ExchangeKind kind) const {
  return format("%s on rank %d of %d", to_string(kind), rank_, world_size_);
}

void Channel::fail(Status status, int lost_rank) {
  if (!failure_.ok()) return;
  failure_ = std::move(status);
  lost_.store(lost_rank, std::memory_order_relaxed);
}

void Channel::connection_ended(const std::string& how) {
  if (ended_) return;
  ended_ = true;
  if (root_left_) return;
  fail(make_error(StatusCode::peer_lost, 0, "rank 0 is lost: %s (seen by rank %d of %d)",
                  how.c_str(), rank_, world_size_),
       0);
}

Status Channel::failure() const {
  return failure_.copy();
}

void Channel::on_frame(const Frame& frame) {
  Outcome outcome;
  Failed failed;
  Departed departed;
  if (frame.type == FrameType::outcome && outcome.decode(frame.body)) {
    // What comes after its exchange was given up is of no use to anybody.
    if (busy_ && outcome.sequence + 1 == next_sequence_) {
      outcome_code_ = outcome.code;
      outcome_.emplace(outcome.payload.begin(), outcome.payload.end());
    }
  } else if (frame.type == FrameType::failed && failed.decode(frame.body)) {
    failed.text = printable(failed.text);
    fail(to_status(failed), failed.kind == FailureKind::lost ? static_cast<int>(failed.rank) : -1);
  } else if (frame.type == FrameType::departed && departed.decode(frame.body)) {
    root_left_ = root_left_ || departed.rank == 0;
    if (departed_rank() < 0) {
      departed_.store(static_cast<int>(departed.rank), std::memory_order_relaxed);
    }
  } else {
    connection_ended("it broke the protocol");
  }
}

void Channel::read_news() {
  std::array<std::byte, 16 * 1024> buffer;
  bool process_ended = false;
  while (!ended_) {
    Frame frame;
    for (;;) {
      const FrameReader::Outcome next = reader_.next(frame);
      if (next == FrameReader::Outcome::incomplete) break;
      if (next == FrameReader::Outcome::malformed) return connection_ended(reader_.complaint());
      on_frame(frame);
      if (ended_) return;
    }
    const Moved m = receive(fd_.get(), buffer.data(), buffer.size());
    if (m.kind == Moved::some) {
      reader_.append(ByteSpan(buffer.data(), m.bytes));
    } else if (m.kind == Moved::closed) {
      connection_ended("it closed the connection");
    } else if (m.kind == Moved::error) {
      connection_ended(error_text(m.errno_value));
    } else if (process_ended) {
      connection_ended("its process has ended");
    } else if (root_process_ &&
               poll_fd(root_process_.get(), POLLIN, Deadline::in(Milliseconds(0)))) {
      // A child that rank 0 forked may still hold the connection open. What rank 0 sent before its
      // end is read first.
      process_ended = true;
    } else {
      return;
    }
  }
}

Status Channel::check() {
  const std::lock_guard lock(mutex_);
  if (!busy_ && !ended_) {
    // One system call where there is nothing new.
    pollfd entries[2] = {{fd_.get(), POLLIN, 0}, {root_process_.get(), POLLIN, 0}};
    if (::poll(entries, 2, 0) != 0) read_news();
  }
  return failure();
}

Result<ByteVector> Channel::exchange(ExchangeKind kind, int root, ByteSpan payload,
                                     Milliseconds timeout) {
  const std::string what = describe(kind);
  if (root < 0 || root >= world_size_) {
    return make_error(StatusCode::invalid_argument, 0, "%s: root %d is no rank", what.c_str(),
                      root);
  }
  const std::size_t most = max_contribution(static_cast<std::uint32_t>(world_size_));
  if (payload.size() > most) {
    return make_error(StatusCode::invalid_argument, 0,
                      "%s: %zu bytes are more than the %zu that one rank may send beside the data "
                      "path",
                      what.c_str(), payload.size(), most);
  }
  const Deadline deadline = Deadline::in(timeout);
  std::unique_lock lock(mutex_);
  if (!turn_free_.wait_for(lock, deadline.remaining(), [&] { return !busy_; })) {
    return make_error(StatusCode::timeout, 0, "%s: another thread's exchange took all the time",
                      what.c_str());
  }
  read_news();
  if (!failure_.ok()) return failure();
  if (ended_) {
    return make_error(StatusCode::peer_lost, 0, "%s: %s", what.c_str(), why_ended());
  }
  busy_ = true;
  outcome_.reset();
  Contribution contribution;
  contribution.sequence = next_sequence_++;
  contribution.kind = kind;
  contribution.root = static_cast<std::uint32_t>(root);
  contribution.timeout_ms =
      static_cast<std::uint32_t>(std::clamp<Milliseconds::rep>(timeout.count(), 0, UINT32_MAX));
  contribution.payload = payload;
  const ByteVector frame = contribution.encode();
  lock.unlock();
  const bool sent = send(frame, deadline);
  lock.lock();
  // A connection that does not take it has something to read that says why, or is at its end.
  if (!sent && deadline.passed()) connection_ended("it takes no more messages");
  Result<ByteVector> result = await_outcome(what, deadline, lock);
  busy_ = false;
  turn_free_.notify_one();
  return result;
}

Result<ByteVector> Channel::await_outcome(const std::string& what, Deadline deadline,
                                          std::unique_lock<std::mutex>& lock) {
  for (;;) {
    read_news();
    // Where both are there, the failure came first and the outcome is only its consequence.
    if (outcome_ && (outcome_code_ == OutcomeCode::ok || failure_.ok())) return take_outcome(what);
    if (!failure_.ok()) return failure();
    if (ended_) {
      return make_error(StatusCode::peer_lost, 0, "%s: %s", what.c_str(), why_ended());
    }
    if (deadline.passed()) {
      return make_error(StatusCode::timeout, 0,
                        "%s: no answer from rank 0 in time; it or the network stands still",
                        what.c_str());
    }
    pollfd entries[2] = {{fd_.get(), POLLIN, 0}, {root_process_.get(), POLLIN, 0}};
    lock.unlock();
    ::poll(entries, 2, deadline.poll_timeout());
    lock.lock();
  }
}

Result<ByteVector> Channel::take_outcome(const std::string& what) {
  ByteVector payload = std::move(*outcome_);
  outcome_.reset();
  if (outcome_code_ == OutcomeCode::ok) return payload;
  const std::string text =
      printable(std::string_view(reinterpret_cast<const char*>(payload.data()), payload.size()));
  StatusCode code = StatusCode::peer_lost;
  if (outcome_code_ == OutcomeCode::timeout) code = StatusCode::timeout;
  if (outcome_code_ == OutcomeCode::mismatch) code = StatusCode::mismatch;
  return make_error(code, 0, "%s: %s", what.c_str(), text.c_str());
}

bool Channel::send(ByteSpan frame, Deadline deadline) {
  const std::lock_guard lock(send_mutex_);
  return send_all(fd_.get(), frame, deadline);
}

const char* Channel::why_ended() const {
  return root_left_ ? "rank 0 has left" : "this rank has left";
}

void Channel::notify(std::string_view text) {
  std::unique_lock lock(mutex_);
  if (!busy_) read_news();
  if (ended_ || !failure_.ok()) return;
  fail(make_error(StatusCode::unhealthy, 0, "rank %d reported a failure: %s", rank_,
                  printable(text).c_str()),
       -1);
  send(Notify{std::string(text)}.encode(), Deadline::in(Milliseconds(1000)));
}

void Channel::leave() {
  std::unique_lock lock(mutex_);
  if (!fd_) return;
  const Deadline deadline = Deadline::in(Milliseconds(250));
  if (!ended_) send(encode_frame(FrameType::leave, {}), deadline);
  ended_ = true;
  if (busy_) {
    // Wakes the thread that waits for an answer; it holds the descriptor until then.
    ::shutdown(fd_.get(), SHUT_RDWR);
    turn_free_.wait_for(lock, deadline.remaining(), [&] { return !busy_; });
    if (busy_) return;
  } else {
    drain_before_close(fd_.get(), deadline);
  }
  fd_.reset();
}

Joined Channel::release() {
  std::unique_lock lock(mutex_);
  ended_ = true;
  turn_free_.wait_for(lock, std::chrono::seconds(1), [&] { return !busy_; });
  Joined joined;
  joined.fd = std::move(fd_);
  joined.reader = std::move(reader_);
  joined.start = start_;
  return joined;
}

}  // namespace comm::detail
