#include "comm/rendezvous/exchanges.h"

#include <algorithm>

#include "comm/rendezvous/log.h"

namespace comm::detail {
namespace {

SharedFrame outcome_frame(std::uint64_t sequence, OutcomeCode code, ByteSpan payload) {
  return std::make_shared<const ByteVector>(Outcome{sequence, code, payload}.encode());
}

SharedFrame outcome_frame(std::uint64_t sequence, OutcomeCode code, const std::string& text) {
  return outcome_frame(sequence, code, std::as_bytes(std::span(text)));
}

std::string call(ExchangeKind kind, std::uint32_t root) {
  return kind == ExchangeKind::broadcast ? format("broadcast(root %u)", root) : to_string(kind);
}

}  // namespace

std::size_t max_contribution(std::uint32_t world_size) {
  return std::min(kMaxContribution, kMaxExchange / std::max(world_size, 1u));
}

std::string list_ranks(const std::vector<std::uint32_t>& ranks) {
  constexpr std::size_t kMost = 8;
  std::string out;
  for (std::size_t i = 0; i < std::min(ranks.size(), kMost); ++i) {
    out += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  if (ranks.size() > kMost) out += " and " + std::to_string(ranks.size() - kMost) + " more";
  return out;
}

Deadline Exchanges::deadline_of(const Contribution& c) {
  // A little before the caller's own clock speaks, so that the caller hears who was missing and not
  // only that time is up.
  if (c.timeout_ms == UINT32_MAX) return Deadline::never();
  const Milliseconds timeout(c.timeout_ms);
  return Deadline::in(timeout - std::min(Milliseconds(100), timeout / 8));
}

Exchanges::Exchanges(std::uint32_t world_size, Deliver deliver)
    : world_size_(world_size),
      max_payload_(max_contribution(world_size)),
      deliver_(std::move(deliver)),
      next_sequence_(world_size, 0),
      next_among_(world_size, 0) {}

void Exchanges::reset() {
  std::fill(next_sequence_.begin(), next_sequence_.end(), 0);
  std::fill(next_among_.begin(), next_among_.end(), 0);
  pending_.clear();
  among_.clear();
  gone_.clear();
}

bool Exchanges::contribute(std::uint32_t rank, const Contribution& c) {
  if (c.kind == ExchangeKind::among) return contribute_among(rank, c);
  if (c.sequence != next_sequence_[rank] || c.root >= world_size_ ||
      c.payload.size() > max_payload_) {
    return false;
  }
  ++next_sequence_[rank];
  if (!gone_.empty()) {
    deliver_(rank, outcome_frame(c.sequence, OutcomeCode::peer_lost, gone_));
    return true;
  }
  const auto [entry, is_new] = pending_.try_emplace(c.sequence);
  Pending& p = entry->second;
  if (is_new) {
    p.kind = c.kind;
    p.root = c.root;
    p.first_rank = rank;
    p.has_arrived.resize(world_size_);
    p.payloads.resize(c.kind == ExchangeKind::barrier ? 0 : world_size_);
  }
  p.has_arrived[rank] = true;
  ++p.arrived;
  if (p.verdict != nullptr) {
    deliver_(rank, p.verdict);
    if (p.arrived == world_size_) pending_.erase(entry);
    return true;
  }
  if (p.kind != c.kind || (p.kind == ExchangeKind::broadcast && p.root != c.root)) {
    fail(c.sequence, p, OutcomeCode::mismatch,
         format("rank %u called %s where rank %u called %s (exchange %llu of this channel)",
                p.first_rank, call(p.kind, p.root).c_str(), rank, call(c.kind, c.root).c_str(),
                static_cast<unsigned long long>(c.sequence)));
    return true;
  }
  p.deadline = p.deadline.earlier(deadline_of(c));
  if (p.kind == ExchangeKind::all_gather || (p.kind == ExchangeKind::broadcast && p.root == rank)) {
    p.payloads[rank].assign(c.payload.begin(), c.payload.end());
  }
  if (p.arrived == world_size_) {
    complete(c.sequence, p);
    pending_.erase(entry);
  }
  return true;
}

void Exchanges::complete(std::uint64_t sequence, Pending& p) {
  ByteWriter w;
  if (p.kind == ExchangeKind::broadcast) w.bytes(p.payloads[p.root]);
  if (p.kind == ExchangeKind::all_gather) {
    for (const ByteVector& payload : p.payloads) {
      w.number<std::uint32_t>(static_cast<std::uint32_t>(payload.size()));
      w.bytes(payload);
    }
  }
  const SharedFrame frame = outcome_frame(sequence, OutcomeCode::ok, w.view());
  for (std::uint32_t rank = 0; rank < world_size_; ++rank) deliver_(rank, frame);
}

void Exchanges::fail(std::uint64_t sequence, Pending& p, OutcomeCode code,
                     const std::string& text) {
  p.verdict = outcome_frame(sequence, code, text);
  p.payloads.clear();
  p.deadline = Deadline::never();
  for (std::uint32_t rank = 0; rank < world_size_; ++rank) {
    if (p.has_arrived[rank]) deliver_(rank, p.verdict);
  }
}

void Exchanges::rank_gone(const std::string& text) {
  if (gone_.empty()) gone_ = text;
  for (auto& [sequence, pending] : pending_) {
    if (pending.verdict == nullptr) fail(sequence, pending, OutcomeCode::peer_lost, text);
  }
}

std::string Exchanges::missing(const Pending& p) const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < world_size_; ++rank) {
    if (!p.has_arrived[rank]) ranks.push_back(rank);
  }
  return list_ranks(ranks);
}

Deadline Exchanges::next_deadline() const {
  Deadline next = Deadline::never();
  for (const auto& [sequence, pending] : pending_) next = next.earlier(pending.deadline);
  for (const auto& [key, pending] : among_) next = next.earlier(pending.deadline);
  return next;
}

void Exchanges::expire() {
  for (auto& [sequence, pending] : pending_) {
    if (pending.verdict != nullptr || !pending.deadline.passed()) continue;
    fail(sequence, pending, OutcomeCode::timeout,
         format("%u of %u ranks came to %s in time; missing rank %s", pending.arrived, world_size_,
                call(pending.kind, pending.root).c_str(), missing(pending).c_str()));
  }
  expire_among();
}

}  // namespace comm::detail
