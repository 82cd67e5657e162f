#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>

#include "comm/rendezvous/hub.h"
#include "comm/rendezvous/sockets.h"

namespace comm::detail {

void Hub::on_member_frame(Connection& c, const Frame& frame) {
  const bool running = c.state == State::member && phase_ == Phase::running;
  switch (frame.type) {
    case FrameType::contribution: {
      Contribution contribution;
      if (running && contribution.decode(frame.body) &&
          exchanges_.contribute(c.hello.rank, contribution)) {
        return;
      }
      break;
    }
    case FrameType::notify: {
      Notify notify;
      if (!notify.decode(frame.body)) break;
      // Before all have joined a failure is a reason to leave, which is seen anyway.
      if (running) fail(FailureKind::reported, c.hello.rank, printable(notify.text));
      return;
    }
    case FrameType::leave: {
      Leave leave;
      if (!leave.decode(frame.body)) break;
      return on_leave(c, leave);
    }
    case FrameType::call: {
      Call call;
      if (!running || !call.decode(frame.body)) break;
      return on_call(call);
    }
    case FrameType::rejoin: {
      Rejoin rejoin;
      if (!c.is_local() || !rejoin.decode(frame.body)) break;
      return on_rejoin(rejoin);
    }
    default: break;
  }
  lose(c, "it broke the protocol");
}

void Hub::on_rejoin(const Rejoin& rejoin) {
  if (phase_ == Phase::running && !failed_) {
    fail(FailureKind::reported, 0, "it gave up this epoch and waits for all ranks to rejoin");
  }
  for (Slot& slot : slots_) {
    if (slot.kind == Slot::joined && !slot.connection->is_local()) {
      close_gracefully(*slot.connection);
    }
  }
  begin_forming(rejoin.epoch, Deadline::in(Milliseconds(rejoin.timeout_ms)));
}

void Hub::on_leave(Connection& c, const Leave& leave) {
  if (c.is_local()) {
    root_done_ = leave.done;
    stopping_ = left_in_order_ = true;
    return;
  }
  if (c.state != State::member || phase_ != Phase::running) return lose(c, "it left");
  const std::uint32_t rank = c.hello.rank;
  slots_[rank] = {Slot::departed, nullptr};
  --joined_;
  close_gracefully(c);
  // The first is news, and so is one that has done less; to tell everybody of everybody would cost
  // the square of the ranks.
  if (!departure_told_ || leave.done < least_done_)
    broadcast(std::make_shared<const ByteVector>(Departed{rank, leave.done}.encode()));
  departure_told_ = true;
  least_done_ = std::min(least_done_, leave.done);
  exchanges_.rank_gone(format("rank %u has left", rank));
}

void Hub::on_call(const Call& call) {
  if (call.number <= called_) return;
  called_ = call.number;
  broadcast(std::make_shared<const ByteVector>(call.encode()));
}

void Hub::lose(Connection& c, const std::string& how) {
  const State was = c.state;
  if (was == State::dead) return;
  bury(c);
  if (c.is_local()) {
    stopping_ = true;
    return;
  }
  const std::uint32_t rank = c.hello.rank;
  switch (was) {
    case State::handshaking:
      log_->say_limited(LogLevel::warn, "turned away %s: %s", c.peer.c_str(), how.c_str());
      return;
    case State::parked:
      if (const auto found = parked_.find(rank); found != parked_.end() && found->second == &c) {
        parked_.erase(found);
      }
      return;
    case State::closing:
    case State::dead: return;
    case State::member: break;
  }
  if (slots_[rank].connection != &c) return;
  --joined_;
  if (phase_ == Phase::forming) {
    // Its launcher may start it again; until the deadline its place stays open.
    slots_[rank] = {};
    log_->say_limited(LogLevel::warn, "%s is gone before all had joined: %s",
                      describe(c.hello).c_str(), how.c_str());
    find_forming_deadline();
    progress_due_ = progress_due_.earlier(Deadline::in(Milliseconds(500)));
    return;
  }
  slots_[rank] = {Slot::lost, nullptr};
  const std::string text = format("%s is lost: %s", describe(c.hello).c_str(), how.c_str());
  fail(FailureKind::lost, rank, text);
  exchanges_.rank_gone(text);
}

void Hub::fail(FailureKind kind, std::uint32_t rank, const std::string& text) {
  if (failed_) return;  // The first cause is the one to know.
  failed_ = true;
  if (kind == FailureKind::lost) log_->say(LogLevel::error, "%s", text.c_str());
  broadcast(std::make_shared<const ByteVector>(Failed{kind, rank, text}.encode()));
}

void Hub::broadcast(const SharedFrame& frame) {
  for (const Slot& slot : slots_) {
    if (slot.kind != Slot::joined) continue;
    slot.connection->send(frame);
    touched_.push_back(slot.connection->id);
  }
}

void Hub::close_gracefully(Connection& c) {
  // It no longer counts as a rank, and has a moment to read what it was told.
  set_state(c, State::closing);
  c.process.reset();
  c.deadline = Deadline::in(config_.handshake_timeout);
  strangers_.push_back(c.id);
  touched_.push_back(c.id);
}

void Hub::close_all() {
  // New ranks must not be greeted by a service that is about to end.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_->fd(), nullptr);
  if (phase_ == Phase::forming) {
    fail_formation(FailureKind::not_formed, "rank 0 gave up; " + roll_call());
  } else if (phase_ == Phase::running && left_in_order_) {
    broadcast(std::make_shared<const ByteVector>(Departed{0, root_done_}.encode()));
  }
  // Those that wait for the next epoch are told nothing: rank 0 may be about to be started again, and
  // they come back until their deadline.
  const Deadline deadline = Deadline::in(Milliseconds(500));
  for (const auto& [id, connection] : connections_) {
    Connection& c = *connection;
    if (c.is_local() || c.state == State::dead || c.state == State::handshaking) continue;
    while (c.flush() && c.has_output() && poll_fd(c.fd.get(), POLLOUT, deadline)) {
    }
    if (c.fd) drain_before_close(c.fd.get(), deadline);
  }
  connections_.clear();
}

}  // namespace comm::detail
