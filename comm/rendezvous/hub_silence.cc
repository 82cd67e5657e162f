#include <algorithm>

#include "comm/rendezvous/hub.h"
#include "comm/rendezvous/sockets.h"

namespace comm::detail {

// Nothing has come from this rank for as long as a silence may last. Who else is silent tells whose
// cable it is; each connection that is well has heard its keepalive answered in the meantime.
std::string Hub::describe_silence(const Connection& c) const {
  std::vector<std::uint32_t> silent;
  std::size_t others = 0;
  for (const Slot& slot : slots_) {
    if (slot.kind != Slot::joined || slot.connection == &c || slot.connection->is_local()) continue;
    if (!crosses_hosts(slot.connection->fd.get())) continue;
    ++others;
    if (silent_for(slot.connection->fd.get()) >= config_.peer_timeout / 2)
      silent.push_back(slot.connection->hello.rank);
  }
  std::string text = "no answer over the network";
  if (others == 0) return text + "; it, or rank 0 itself, is cut off";
  if (silent.empty()) return text + ", while others answer";
  text += ", nor from rank " + list_ranks(silent);
  return silent.size() == others ? text + "; they, or rank 0 itself, are cut off" : text;
}

// A rank whose host vanished has a connection that says nothing of it, and its successor is at the
// door. The kernel at the other end is asked: if it acknowledges, the rank lives; if it knows nothing
// of the connection any more, that ends at once.
bool Hub::holds_in_doubt(Connection& newcomer, Connection& before) {
  if (before.is_local() || before.process || !crosses_hosts(before.fd.get())) return false;
  const bool runs = before.state == State::member && phase_ == Phase::running;
  // What changes nothing for who reads it.
  before.send(runs ? Call{called_}.encode() : Progress{roll_call()}.encode());
  touched_.push_back(before.id);
  doubts_.push_back({newcomer.id, before.id});
  return true;
}

Refusal Hub::dispute(Connection& first, Connection& second) {
  return holds_in_doubt(second, first) ? Refusal() : claimed_twice(first, second);
}

bool Hub::is_in_doubt(const Connection& newcomer) const {
  return std::any_of(doubts_.begin(), doubts_.end(),
                     [&](const Doubt& doubt) { return doubt.newcomer == newcomer.id; });
}

void Hub::settle_doubts() {
  std::vector<Doubt> doubts;
  doubts.swap(doubts_);
  for (const Doubt& doubt : doubts) {
    const auto newcomer = connections_.find(doubt.newcomer);
    if (newcomer == connections_.end()) continue;
    Connection& c = *newcomer->second;
    if (c.state != State::handshaking) continue;  // It gave up, or its time was up.
    const auto before = connections_.find(doubt.before);
    const bool is_gone = before == connections_.end() || before->second->state == State::dead ||
                         before->second->state == State::closing;
    if (is_gone) {
      if (Refusal r = place_in_roster(c); r.refused()) refuse(c, r);
    } else if (before->second->has_output() || awaits_acknowledgement(before->second->fd.get())) {
      doubts_.push_back(doubt);
    } else {
      refuse(c, claimed_twice(*before->second, c));
    }
  }
}

}  // namespace comm::detail
