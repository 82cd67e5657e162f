#include <algorithm>
#include <utility>

#include "comm/rendezvous/hub.h"
#include "comm/rendezvous/process.h"
#include "comm/rendezvous/proof.h"
#include "comm/rendezvous/sockets.h"

namespace comm::detail {
namespace {

constexpr std::uint64_t kAnyEpoch = ~std::uint64_t{0};
constexpr Milliseconds kProgressEvery{500};

// A little before the rank's own clock, so that it hears who was missing rather than that time is up.
Deadline deadline_of(const Hello& hello) {
  const Milliseconds remaining(hello.remaining_ms);
  return Deadline::in(remaining - std::min(Milliseconds(100), remaining / 10));
}

FailureKind kind_of(Reason reason) {
  return reason == Reason::duplicate_rank || reason == Reason::rank_range ? FailureKind::not_formed
                                                                          : FailureKind::mismatch;
}

}  // namespace

void Hub::on_hello(Connection& c, const Frame& frame) {
  if (is_in_doubt(c)) return refuse(c, {Reason::malformed, "it said hello twice"});
  Hello hello;
  if (frame.type != FrameType::hello || !hello.decode(frame.body)) {
    return refuse(c, {Reason::malformed, "its hello is malformed"});
  }
  c.hello = std::move(hello);
  if (Refusal r = check_hello(config_.expected, c.greeting, c.hello); r.refused()) {
    return refuse(c, r);
  }
  if (Refusal r = place_in_roster(c); r.refused()) refuse(c, r);
}

// Admits or parks the connection, or says why it can be neither.
Refusal Hub::place_in_roster(Connection& c) {
  const Hello& hello = c.hello;
  if (hello.epoch != kAnyEpoch && hello.epoch != epoch_next_ && !takes_epoch_of(hello)) {
    return {Reason::stale_epoch,
            format("%s asks for epoch %llu; %s epoch %llu", describe(hello).c_str(),
                   static_cast<unsigned long long>(hello.epoch),
                   phase_ == Phase::forming ? "what forms is" : "the next is",
                   static_cast<unsigned long long>(epoch_next_))};
  }
  const Slot& slot = slots_[hello.rank];
  if (phase_ == Phase::forming) {
    if (slot.kind == Slot::joined && is_still_there(*slot.connection)) {
      const bool is_new = slot.connection->hello.instance != hello.instance;
      const bool asks = hello.epoch != kAnyEpoch;
      const bool other_asks = slot.connection->hello.epoch != kAnyEpoch;
      if (is_new && (!may_take_epoch() || asks == other_asks)) return dispute(*slot.connection, c);
      // When a whole job is started again, the process that knows of an epoch is of the job before.
      if (is_new && asks)
        return {Reason::stale_epoch,
                format("%s asks for epoch %llu; a new process has its place",
                       describe(hello).c_str(), static_cast<unsigned long long>(hello.epoch))};
      if (is_new)
        expel(slots_[hello.rank], "a new process has its place");
      else
        lose(*slot.connection, "it connected anew");
    }
    send_verdict(c, Reason::none, "");
    admit(c);
    start_if_complete();
    return {};
  }
  // A new process may take the place of a rank only once that is known to be gone; a member that
  // asks for the next epoch is ahead of the others.
  if (hello.rank == 0 ||
      (hello.epoch == kAnyEpoch && slot.kind == Slot::joined && is_still_there(*slot.connection))) {
    return dispute(slot.connection != nullptr ? *slot.connection : *connections_.at(0), c);
  }
  if (const auto found = parked_.find(hello.rank);
      found != parked_.end() && is_still_there(*found->second)) {
    if (found->second->hello.instance != hello.instance) return dispute(*found->second, c);
    lose(*found->second, "it connected anew");
  }
  send_verdict(c, Reason::none, "waiting for rank 0 to begin the next epoch");
  set_connection_options(c.fd.get(), config_.peer_timeout);
  set_state(c, State::parked);
  c.deadline = deadline_of(hello);
  parked_[hello.rank] = &c;
  return {};
}

// A rank 0 that was started again has lost count; those that were there before have not. Whoever asks
// for less than another is left over from an epoch before that one.
bool Hub::takes_epoch_of(const Hello& hello) {
  if (!may_take_epoch() || hello.rank == 0 || hello.epoch < epoch_next_) return false;
  for (Slot& slot : slots_) {
    if (slot.kind != Slot::joined || slot.connection->is_local()) continue;
    if (slot.connection->hello.epoch == kAnyEpoch) continue;
    expel(slot, format("rank %u knows of epoch %llu", hello.rank,
                       static_cast<unsigned long long>(hello.epoch)));
  }
  epoch_next_ = hello.epoch;
  return true;
}

bool Hub::may_take_epoch() const {
  return config_.takes_epoch_of_others && !has_started_ && phase_ == Phase::forming;
}

void Hub::expel(Slot& slot, const std::string& why) {
  Connection& c = *slot.connection;
  const std::string text =
      format("%s is left over from before epoch %llu: %s", describe(c.hello).c_str(),
             static_cast<unsigned long long>(c.hello.epoch), why.c_str());
  log_->say_limited(LogLevel::warn, "turned away %s (%s): %s", c.peer.c_str(),
                    to_string(Reason::stale_epoch), text.c_str());
  slot = {};
  --joined_;
  c.send(Failed{FailureKind::not_formed, 0, text}.encode());
  close_gracefully(c);
  find_forming_deadline();
}

void Hub::find_forming_deadline() {
  forming_deadline_ = connections_.at(0)->deadline;
  for (const Slot& slot : slots_) {
    if (slot.kind == Slot::joined) {
      forming_deadline_ = forming_deadline_.earlier(slot.connection->deadline);
    }
  }
}

// The end of a rank's connection may be in the kernel already when its next one speaks.
bool Hub::is_still_there(Connection& c) {
  const State before = c.state;
  if (!c.is_local()) read_from(c);
  return c.state == before;
}

Refusal Hub::claimed_twice(const Connection& first, const Connection& second) {
  return {Reason::duplicate_rank,
          format("rank %u was claimed twice: by pid %u on %s (%s) and by pid %u on %s (%s)",
                 second.hello.rank, first.hello.process.pid, printable(first.hello.host).c_str(),
                 first.peer.c_str(), second.hello.process.pid, printable(second.hello.host).c_str(),
                 second.peer.c_str())};
}

void Hub::admit(Connection& c) {
  if (!c.is_local()) {
    set_connection_options(c.fd.get(), config_.peer_timeout);
    c.process = watch_process(c.hello.process, self_);
    if (c.process) watch(c.process.get(), c.id | (std::uint64_t{1} << 63), 1 /* EPOLLIN */);
    c.deadline = deadline_of(c.hello);
  }
  if (c.state != State::member) set_state(c, State::member);
  slots_[c.hello.rank] = {Slot::joined, &c};
  ++joined_;
  forming_deadline_ = forming_deadline_.earlier(c.deadline);
  // Ranks still come: whoever was turned away may not have been one of them.
  if (!offence_.empty()) offence_deadline_ = Deadline::in(config_.offence_grace);
  if (progress_due_.when() == Clock::time_point::max()) {
    progress_due_ = Deadline::in(kProgressEvery);
  }
}

void Hub::send_verdict(Connection& c, Reason reason, const std::string& text) {
  Verdict verdict;
  verdict.reason = reason;
  verdict.epoch = epoch_next_;
  verdict.root = self_;
  verdict.text = text;
  if (!config_.expected.secret.empty() && c.hello.protocol == kProtocolVersion) {
    verdict.mac = prove_root(config_.expected.secret, c.greeting, c.hello, verdict);
  }
  c.send(verdict.encode());
  touched_.push_back(c.id);
}

void Hub::refuse(Connection& c, const Refusal& refusal) {
  send_verdict(c, refusal.reason, refusal.text);
  set_state(c, State::closing);
  log_->say_limited(LogLevel::warn, "turned away %s (%s): %s", c.peer.c_str(),
                    to_string(refusal.reason), refusal.text.c_str());
  last_refusal_ = refusal.text;
  if (refusal.by_member() && phase_ == Phase::forming) note_offence(refusal);
}

void Hub::note_offence(const Refusal& refusal) {
  if (offence_.empty()) {
    offence_ = refusal.text;
    offence_kind_ = kind_of(refusal.reason);
  }
  // With a secret it was a rank of this job beyond doubt, and its place stays empty.
  if (!config_.expected.secret.empty()) return fail_formation(offence_kind_, offence_);
  offence_deadline_ = Deadline::in(config_.offence_grace);
}

void Hub::begin_forming(std::uint64_t epoch, Deadline deadline) {
  phase_ = Phase::forming;
  epoch_next_ = epoch;
  failed_ = departure_told_ = false;
  least_done_ = kNotCounted;
  called_ = 0;
  joined_ = 0;
  slots_.assign(slots_.size(), Slot{});
  exchanges_.reset();
  forming_deadline_ = deadline;
  offence_.clear();
  last_refusal_.clear();
  Connection& local = *connections_.at(0);
  local.deadline = deadline;
  send_verdict(local, Reason::none, "");
  admit(local);
  std::map<std::uint32_t, Connection*> parked;
  parked.swap(parked_);
  for (const auto& [rank, connection] : parked) admit(*connection);
  start_if_complete();
}

void Hub::start_if_complete() {
  if (phase_ != Phase::forming || joined_ != slots_.size()) return;
  phase_ = Phase::running;
  has_started_ = true;
  forming_deadline_ = offence_deadline_ = progress_due_ = Deadline::never();
  offence_.clear();
  Start start;
  start.epoch = epoch_next_++;
  fill_random(start.session);
  broadcast(std::make_shared<const ByteVector>(start.encode()));
}

void Hub::fail_formation(FailureKind kind, const std::string& text) {
  if (phase_ != Phase::forming) return;
  phase_ = Phase::idle;
  forming_deadline_ = offence_deadline_ = progress_due_ = Deadline::never();
  const auto frame = std::make_shared<const ByteVector>(Failed{kind, 0, text}.encode());
  log_->say(LogLevel::error, "the ranks cannot start: %s", text.c_str());
  broadcast(frame);
  for (Slot& slot : slots_) {
    if (slot.kind == Slot::joined && !slot.connection->is_local()) {
      close_gracefully(*slot.connection);
    }
    slot = {};
  }
  joined_ = 0;
  offence_.clear();  // Last: it may be the text.
}

void Hub::formation_timers() {
  while (!parked_.empty()) {
    const auto late = std::find_if(parked_.begin(), parked_.end(), [](const auto& entry) {
      return entry.second->deadline.passed();
    });
    if (late == parked_.end()) break;
    late->second->send(
        Failed{FailureKind::timeout, 0, "rank 0 did not begin the next epoch in time"}.encode());
    close_gracefully(*late->second);
    parked_.erase(late);
  }
  if (phase_ != Phase::forming) return;
  if (offence_deadline_.passed()) return fail_formation(offence_kind_, offence_);
  if (forming_deadline_.passed()) {
    std::string text = roll_call();
    if (!last_refusal_.empty()) text += "; turned away: " + last_refusal_;
    return fail_formation(FailureKind::timeout, text);
  }
  if (progress_due_.passed()) send_progress();
}

void Hub::send_progress() {
  progress_due_ = Deadline::never();
  broadcast(std::make_shared<const ByteVector>(Progress{roll_call()}.encode()));
}

std::vector<std::uint32_t> Hub::missing_ranks() const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < slots_.size(); ++rank) {
    if (slots_[rank].kind != Slot::joined) ranks.push_back(rank);
  }
  return ranks;
}

std::string Hub::roll_call() const {
  return format("%u of %zu joined, missing rank %s", joined_, slots_.size(),
                list_ranks(missing_ranks()).c_str());
}

}  // namespace comm::detail
