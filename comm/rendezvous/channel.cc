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
      reader_(std::move(joined.reader)) {
  // News may have come in one piece with the start; a look at the connection would not show it.
  read_news();
}

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
  why_ended_ = root_left_ ? "rank 0 has left" : "the connection to rank 0 ended: " + how;
  if (root_left_) return;
  fail(make_error(StatusCode::peer_lost, 0, "rank 0 is lost: %s (seen by rank %d of %d)",
                  how.c_str(), rank_, world_size_),
       0);
}

void Channel::connection_failed(int errno_value) {
  if (!is_silence(errno_value)) return connection_ended(error_text(errno_value));
  connection_ended(format("no answer over the network; it, or rank %d itself, is cut off", rank_));
}

Status Channel::failure() const {
  return failure_.copy();
}

void Channel::on_frame(const Frame& frame) {
  Outcome outcome;
  Failed failed;
  Departed departed;
  Call call;
  if (frame.type == FrameType::outcome && outcome.decode(frame.body)) {
    // What comes after its exchange was given up is of no use to anybody.
    if (const auto found = waiting_.find(outcome.sequence); found != waiting_.end()) {
      found->second->code = outcome.code;
      found->second->failed_before = !failure_.ok();
      found->second->outcome.emplace(outcome.payload.begin(), outcome.payload.end());
    }
  } else if (frame.type == FrameType::failed && failed.decode(frame.body)) {
    failed.text = printable(failed.text);
    fail(to_status(failed), failed.kind == FailureKind::lost ? static_cast<int>(failed.rank) : -1);
  } else if (frame.type == FrameType::departed && departed.decode(frame.body)) {
    root_left_ = root_left_ || departed.rank == 0;
    if (departed_rank() < 0 || departed.done < departure_.done) departure_ = departed;
    if (departed_rank() < 0) {
      departed_.store(static_cast<int>(departed.rank), std::memory_order_relaxed);
    }
  } else if (frame.type == FrameType::call && call.decode(frame.body)) {
    called_.store(call.number, std::memory_order_relaxed);
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
    } else if (m.kind == Moved::error || (m.kind == Moved::closed && send_error_ != 0)) {
      connection_failed(m.kind == Moved::error ? m.errno_value : send_error_.load());
    } else if (m.kind == Moved::closed) {
      connection_ended("it closed the connection");
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
  if (!is_reading_ && !ended_) {
    // One system call where there is nothing new.
    pollfd entries[2] = {{fd_.get(), POLLIN, 0}, {root_process_.get(), POLLIN, 0}};
    if (::poll(entries, 2, 0) != 0) read_news();
  }
  return failure();
}

Result<ByteVector> Channel::exchange(ExchangeKind kind, int root, ByteSpan payload,
                                     Milliseconds timeout) {
  Waiting waiting{describe(kind), Deadline::in(timeout)};
  if (root < 0 || root >= world_size_) {
    return make_error(StatusCode::invalid_argument, 0, "%s: root %d is no rank",
                      waiting.what.c_str(), root);
  }
  Contribution contribution;
  contribution.kind = kind;
  contribution.root = static_cast<std::uint32_t>(root);
  contribution.payload = payload;
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, waiting.deadline.remaining(), [&] { return !is_exchanging_; })) {
    return make_error(StatusCode::timeout, 0, "%s: another thread's exchange took all the time",
                      waiting.what.c_str());
  }
  is_exchanging_ = true;
  Result<ByteVector> result = run(waiting, contribution, timeout, next_sequence_, lock);
  is_exchanging_ = false;
  changed_.notify_all();
  return result;
}

Result<ByteVector> Channel::gather_among(const Among& ranks, bool despite_failures,
                                         Milliseconds timeout) {
  Waiting waiting{format("exchange on rank %u of %u", ranks.rank, ranks.size),
                  Deadline::in(timeout), despite_failures};
  const ByteVector bytes = ranks.encode();
  Contribution contribution;
  contribution.kind = ExchangeKind::among;
  contribution.payload = bytes;
  std::unique_lock lock(mutex_);
  Result<ByteVector> result = run(waiting, contribution, timeout, next_among_, lock);
  changed_.notify_all();
  return result;
}

Status Channel::refusal(const Waiting& waiting) const {
  // Who goes on without a lost rank is told by rank 0 what becomes of the exchange.
  if (!failure_.ok() && !waiting.despite_failures) return failure();
  if (!ended_) return {};
  return make_error(StatusCode::peer_lost, 0, "%s: %s", waiting.what.c_str(), why_ended_.c_str());
}

Result<ByteVector> Channel::run(Waiting& waiting, Contribution contribution, Milliseconds timeout,
                                std::uint64_t& next_sequence, std::unique_lock<std::mutex>& lock) {
  const std::size_t most = max_contribution(static_cast<std::uint32_t>(world_size_));
  if (contribution.payload.size() > most) {
    return make_error(StatusCode::invalid_argument, 0,
                      "%s: %zu bytes are more than the %zu that one rank may send beside the data "
                      "path",
                      waiting.what.c_str(), contribution.payload.size(), most);
  }
  if (!changed_.wait_for(lock, waiting.deadline.remaining(), [&] { return !is_sending_; })) {
    return make_error(StatusCode::timeout, 0, "%s: another thread's message took all the time",
                      waiting.what.c_str());
  }
  if (!is_reading_) read_news();
  if (Status refused = refusal(waiting); !refused.ok()) return refused;
  is_sending_ = true;
  contribution.sequence = next_sequence++;
  contribution.timeout_ms =
      static_cast<std::uint32_t>(std::clamp<Milliseconds::rep>(timeout.count(), 0, UINT32_MAX));
  waiting_.emplace(contribution.sequence, &waiting);
  const ByteVector frame = contribution.encode();
  lock.unlock();
  const bool sent = send(frame, waiting.deadline);
  lock.lock();
  is_sending_ = false;
  changed_.notify_all();
  // A connection that does not take it has something to read that says why, or is at its end.
  if (!sent && waiting.deadline.passed()) connection_ended("it takes no more messages");
  Result<ByteVector> result = await_outcome(waiting, lock);
  waiting_.erase(contribution.sequence);
  return result;
}

Result<ByteVector> Channel::await_outcome(Waiting& waiting, std::unique_lock<std::mutex>& lock) {
  for (;;) {
    if (!is_reading_) read_news();
    // An outcome that came after the failure is only its consequence.
    const bool despite = !waiting.failed_before || waiting.despite_failures;
    if (waiting.outcome && (waiting.code == OutcomeCode::ok || despite))
      return take_outcome(waiting);
    if (Status refused = refusal(waiting); !refused.ok()) return refused;
    if (waiting.deadline.passed()) {
      return make_error(StatusCode::timeout, 0,
                        "%s: no answer from rank 0 in time; it or the network stands still",
                        waiting.what.c_str());
    }
    if (is_reading_) {
      changed_.wait_for(lock, waiting.deadline.remaining());
      continue;
    }
    is_reading_ = true;
    pollfd entries[2] = {{fd_.get(), POLLIN, 0}, {root_process_.get(), POLLIN, 0}};
    lock.unlock();
    ::poll(entries, 2, waiting.deadline.poll_timeout());
    lock.lock();
    is_reading_ = false;
    read_news();
    changed_.notify_all();
  }
}

Result<ByteVector> Channel::take_outcome(Waiting& waiting) {
  ByteVector payload = std::move(*waiting.outcome);
  if (waiting.code == OutcomeCode::ok) return payload;
  const std::string text =
      printable(std::string_view(reinterpret_cast<const char*>(payload.data()), payload.size()));
  StatusCode code = StatusCode::peer_lost;
  if (waiting.code == OutcomeCode::timeout) code = StatusCode::timeout;
  if (waiting.code == OutcomeCode::mismatch) code = StatusCode::mismatch;
  return make_error(code, 0, "%s: %s", waiting.what.c_str(), text.c_str());
}

bool Channel::send(ByteSpan frame, Deadline deadline) {
  const std::lock_guard lock(send_mutex_);
  if (send_all(fd_.get(), frame, deadline)) return true;
  if (!deadline.passed() && is_silence(errno)) send_error_ = errno;
  return false;
}

void Channel::notify(std::string_view text) {
  std::unique_lock lock(mutex_);
  if (!is_reading_) read_news();
  if (ended_ || !failure_.ok()) return;
  fail(make_error(StatusCode::unhealthy, 0, "rank %d reported a failure: %s", rank_,
                  printable(text).c_str()),
       -1);
  send(Notify{std::string(text)}.encode(), Deadline::in(Milliseconds(1000)));
}

Departed Channel::departure() const {
  const std::lock_guard lock(mutex_);
  return departure_;
}

void Channel::call(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (ended_ || number <= called()) return;
  send(Call{number}.encode(), Deadline::in(Milliseconds(100)));
}

void Channel::leave(std::uint64_t done) {
  std::unique_lock lock(mutex_);
  if (!fd_) return;
  const Deadline deadline = Deadline::in(Milliseconds(250));
  if (!ended_) send(Leave{done}.encode(), deadline);
  ended_ = true;
  if (!waiting_.empty()) {
    // Wakes the threads that wait for an answer; one of them holds the descriptor until then.
    ::shutdown(fd_.get(), SHUT_RDWR);
    changed_.notify_all();
    changed_.wait_for(lock, deadline.remaining(), [&] { return waiting_.empty(); });
    if (!waiting_.empty()) return;
  } else {
    drain_before_close(fd_.get(), deadline);
  }
  fd_.reset();
}

Joined Channel::release() {
  std::unique_lock lock(mutex_);
  ended_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, std::chrono::seconds(1), [&] { return waiting_.empty(); });
  Joined joined;
  joined.fd = std::move(fd_);
  joined.reader = std::move(reader_);
  joined.start = start_;
  return joined;
}

}  // namespace comm::detail
