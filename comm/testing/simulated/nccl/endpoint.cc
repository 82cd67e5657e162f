#include "comm/testing/simulated/nccl/endpoint.h"

#include <chrono>
#include <cstdio>
#include <utility>

#include "comm/testing/simulated/nccl/link.h"
#include "comm/testing/simulated/report.h"

namespace comm::simulated::detail {
namespace {

constexpr std::chrono::seconds kNoticeable{10};

struct Table {
  std::mutex mutex;
  std::map<std::uint64_t, std::weak_ptr<Endpoint>> endpoints;
  std::uint64_t next = 1;
};

Table& table() {
  static Table& table = *new Table;
  return table;
}

}  // namespace

std::shared_ptr<Endpoint> Endpoint::make() {
  const auto endpoint = std::make_shared<Endpoint>();
  const std::lock_guard lock(table().mutex);
  endpoint->id_ = table().next++;
  table().endpoints[endpoint->id_] = endpoint;
  return endpoint;
}

Endpoint::~Endpoint() {
  const std::lock_guard lock(table().mutex);
  table().endpoints.erase(id_);
}

std::shared_ptr<Endpoint> Endpoint::find(std::uint64_t id) {
  const std::lock_guard lock(table().mutex);
  const auto found = table().endpoints.find(id);
  return found == table().endpoints.end() ? nullptr : found->second.lock();
}

void Endpoint::join(int rank, const std::vector<Address>& addresses, std::string name) {
  std::vector<Peer> peers(addresses.size());
  for (std::size_t i = 0; i < peers.size(); ++i) {
    Peer& peer = peers[i];
    peer.address = addresses[i];
    peer.is_local = addresses[i].process == process_token();
    if (peer.is_local) {
      peer.local = find(addresses[i].endpoint);
    } else {
      peer.link = Link::open(addresses[i].process, addresses[i].endpoint, rank);
    }
  }
  const std::lock_guard lock(mutex_);
  rank_ = rank;
  name_ = std::move(name);
  for (std::size_t i = 0; i < peers.size(); ++i) {
    if (!peers[i].is_local && peers[i].link == nullptr) dead_peer_ = static_cast<int>(i);
  }
  peers_ = std::move(peers);
}

void Endpoint::send(int to, Message message) {
  std::shared_ptr<Endpoint> local;
  std::shared_ptr<Link> link;
  {
    const std::lock_guard lock(mutex_);
    if (silent_) return;
    message.from = rank_;
    const Peer& peer = peers_[static_cast<std::size_t>(to)];
    local = peer.local.lock();
    link = peer.link;
  }
  if (local != nullptr) {
    local->deliver(std::move(message));
  } else if (link != nullptr && !link->send(message)) {
    lost(to);
  }
}

bool Endpoint::receive(Channel channel, std::uint64_t sequence, int from, Message* message) {
  const Key key{channel, sequence, from};
  std::unique_lock lock(mutex_);
  const bool is_host = channel == Channel::control || channel == Channel::connect;
  const auto ended = [&] { return is_host ? all_stopped_ : stopped_; };
  const auto ready = [&] { return ended() || mail_.count(key) != 0; };
  if (!arrived_.wait_for(lock, kNoticeable, ready)) {
    std::fprintf(stderr,
                 "comm-sim: note: rank %d of %s has waited 10 s for rank %d (number %llu)\n", rank_,
                 name_.c_str(), from, static_cast<unsigned long long>(sequence));
    arrived_.wait(lock, ready);
  }
  if (ended()) return false;
  auto node = mail_.extract(key);
  *message = std::move(node.mapped());
  return true;
}

bool Endpoint::has(Channel channel, std::uint64_t sequence, int from) {
  const std::lock_guard lock(mutex_);
  return mail_.count({channel, sequence, from}) != 0;
}

bool Endpoint::compare(std::uint64_t sequence, Agreement* agreement, int from, std::string* text) {
  const Call& theirs = agreement->theirs[from];
  if (!agreement->known || theirs == agreement->mine) return true;
  agreement->broken = true;
  // Of two ranks in one process only the lower one speaks.
  if (peers_[static_cast<std::size_t>(from)].is_local && from < rank_) return false;
  *text = name_ + ": collective " + std::to_string(sequence) + " is " + describe(agreement->mine) +
          " on rank " + std::to_string(rank_) + " and " + describe(theirs) + " on rank " +
          std::to_string(from);
  return false;
}

bool Endpoint::agree(std::uint64_t sequence, const Call& call) {
  std::vector<std::string> texts;
  bool agreed = true;
  {
    const std::lock_guard lock(mutex_);
    Agreement& agreement = agreements_[sequence];
    agreement.known = true;
    agreement.mine = call;
    for (const auto& [from, theirs] : agreement.theirs) {
      std::string text;
      agreed = compare(sequence, &agreement, from, &text) && agreed;
      if (!text.empty()) texts.push_back(text);
    }
    if (agreed && agreement.theirs.size() + 1 == peers_.size()) agreements_.erase(sequence);
  }
  for (const std::string& text : texts) report(Violation::mismatch, "%s", text.c_str());
  return agreed;
}

bool Endpoint::disagreed(std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  const auto found = agreements_.find(sequence);
  return found != agreements_.end() && found->second.broken;
}

void Endpoint::finish(std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  finished_ = sequence;
  const auto first = mail_.lower_bound({Channel::collective, 0, 0});
  const auto last = mail_.lower_bound({Channel::collective, sequence + 1, 0});
  mail_.erase(first, last);
}

void Endpoint::wait_until_stopped() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return stopped_; });
}

void Endpoint::stop_operations() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  arrived_.notify_all();
}

void Endpoint::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  all_stopped_ = true;
  arrived_.notify_all();
}

void Endpoint::leave() {
  std::size_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    count = peers_.size();
  }
  for (std::size_t i = 0; i < count; ++i) {
    Message goodbye;
    goodbye.channel = Channel::goodbye;
    send(static_cast<int>(i), std::move(goodbye));
  }
  const std::lock_guard lock(mutex_);
  for (Peer& peer : peers_) peer.link.reset();
}

bool Endpoint::stopped() {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

void Endpoint::vanish() {
  const std::lock_guard lock(mutex_);
  silent_ = true;
}

int Endpoint::dead_peer() {
  const std::lock_guard lock(mutex_);
  return dead_peer_;
}

void Endpoint::on_arrival(std::function<void(const Message&)> callback) {
  const std::lock_guard lock(mutex_);
  callback_ = std::move(callback);
}

void Endpoint::deliver(Message message) {
  std::function<void(const Message&)> callback;
  std::string text;
  Message header = message;
  header.data = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const int from = message.from;
    if (message.channel == Channel::goodbye) {
      if (static_cast<std::size_t>(from) < peers_.size()) {
        peers_[static_cast<std::size_t>(from)].said_goodbye = true;
      }
      return;
    }
    if (message.channel == Channel::collective && from != rank_) {
      Agreement& agreement = agreements_[message.sequence];
      agreement.theirs[from] = message.call;
      const bool agreed = compare(message.sequence, &agreement, from, &text);
      if (agreed && agreement.known && agreement.theirs.size() + 1 == peers_.size()) {
        agreements_.erase(message.sequence);
      }
    }
    const Key key{message.channel, message.sequence, from};
    if (message.channel != Channel::collective || message.sequence > finished_) {
      mail_[key] = std::move(message);
    }
    arrived_.notify_all();
    callback = callback_;
  }
  if (!text.empty()) report(Violation::mismatch, "%s", text.c_str());
  if (callback) callback(header);
}

void Endpoint::lost(int from) {
  const std::lock_guard lock(mutex_);
  if (static_cast<std::size_t>(from) >= peers_.size()) return;
  Peer& peer = peers_[static_cast<std::size_t>(from)];
  peer.link.reset();
  if (peer.said_goodbye || stopped_ || dead_peer_ != -1) return;
  dead_peer_ = from;
  std::fprintf(stderr, "comm-sim: note: rank %d of %s: the process of rank %d (pid %d) ended\n",
               rank_, name_.c_str(), from, peer.address.pid);
}

}  // namespace comm::simulated::detail
