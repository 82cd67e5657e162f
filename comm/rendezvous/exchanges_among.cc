/// Exchanges among some of the ranks.

#include <algorithm>
#include <string_view>

#include "comm/rendezvous/exchanges.h"
#include "comm/rendezvous/log.h"

namespace comm::detail {
namespace {

/// "rank 2" or "ranks 0, 1 and 3", as a sentence begins.
std::string name_ranks(const std::vector<std::uint32_t>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + list_ranks(ranks);
}

}  // namespace

bool Exchanges::contribute_among(std::uint32_t rank, const Contribution& c) {
  Among among;
  if (c.sequence != (Among::kSequenceBit | next_among_[rank]) || !among.decode(c.payload) ||
      among.size < 2 || among.size > world_size_ || among.payload.size() > max_payload_) {
    return false;
  }
  ++next_among_[rank];
  const auto [entry, is_new] = among_.try_emplace({among.id, among.number});
  PendingAmong& p = entry->second;
  if (is_new) p.parts.resize(among.size);
  // Two that do not agree who they are have made different calls before.
  const bool fits = p.parts.size() == among.size && !p.parts[among.rank].has_arrived;
  if (!fits || !p.verdict.empty()) {
    if (p.verdict.empty())
      fail(p, OutcomeCode::mismatch,
           format("rank %u comes as member %u of %u of a communicator of %zu ranks", rank,
                  among.rank, among.size, p.parts.size()));
    const ByteSpan text = std::as_bytes(std::span(p.verdict));
    deliver_(rank, std::make_shared<const ByteVector>(Outcome{c.sequence, p.code, text}.encode()));
    if (fits) p.parts[among.rank].has_arrived = true;
    if (++p.arrived == p.parts.size()) among_.erase(entry);
    return true;
  }
  p.sums = p.sums && among.sums;
  p.parts[among.rank] = {true, rank, c.sequence, {among.payload.begin(), among.payload.end()}};
  p.deadline = p.deadline.earlier(deadline_of(c));
  if (++p.arrived == p.parts.size()) {
    complete(p);
    among_.erase(entry);
  }
  return true;
}

std::uint64_t Exchanges::sum_of_tails(const PendingAmong& p) {
  std::uint64_t sum = 0;
  for (const auto& part : p.parts) {
    ByteReader tail(ByteSpan(part.payload).last(sizeof sum));
    std::uint64_t number = 0;
    (void)tail.number(number);
    sum += number;
  }
  return sum;
}

void Exchanges::complete(const PendingAmong& p) {
  const auto differs = [&](auto what) {
    return std::any_of(p.parts.begin(), p.parts.end(),
                       [&](const auto& part) { return what(part) != what(p.parts.front()); });
  };
  const bool sizes_differ = differs([](const auto& part) { return part.payload.size(); });
  // Of numbers that are added up only the sum goes out: as much to each rank, however many they are.
  const std::size_t tail = p.sums ? sizeof(std::uint64_t) : 0;
  const auto head_of = [&](const auto& part) {
    return std::string_view(reinterpret_cast<const char*>(part.payload.data()),
                            part.payload.size() - tail);
  };
  const bool all_equal = !sizes_differ && !differs(head_of);
  ByteWriter w;
  w.number<std::uint32_t>(all_equal ? 1 : static_cast<std::uint32_t>(p.parts.size()));
  if (all_equal) {
    w.bytes(std::as_bytes(std::span(head_of(p.parts.front()))));
    if (p.sums) w.number<std::uint64_t>(sum_of_tails(p));
  } else {
    for (const auto& part : p.parts) w.bytes(part.payload);
  }
  const std::string text = "ranks exchange different amounts";
  for (const auto& part : p.parts) {
    const Outcome outcome =
        sizes_differ ? Outcome{part.sequence, OutcomeCode::mismatch, std::as_bytes(std::span(text))}
                     : Outcome{part.sequence, OutcomeCode::ok, w.view()};
    deliver_(part.rank, std::make_shared<const ByteVector>(outcome.encode()));
  }
}

void Exchanges::fail(PendingAmong& p, OutcomeCode code, std::string text) {
  p.code = code;
  p.verdict = std::move(text);
  p.deadline = Deadline::never();
  for (auto& part : p.parts) {
    if (!part.has_arrived) continue;
    const ByteSpan bytes = std::as_bytes(std::span(p.verdict));
    deliver_(part.rank,
             std::make_shared<const ByteVector>(Outcome{part.sequence, code, bytes}.encode()));
    part.payload.clear();
  }
}

void Exchanges::expire_among() {
  for (auto& [key, p] : among_) {
    if (!p.verdict.empty() || !p.deadline.passed()) continue;
    std::vector<std::uint32_t> here, missing;
    for (std::uint32_t r = 0; r < p.parts.size(); ++r)
      (p.parts[r].has_arrived ? here : missing).push_back(r);
    fail(p, OutcomeCode::timeout,
         format("%s did not arrive in time; %s did", name_ranks(missing).c_str(),
                name_ranks(here).c_str()));
  }
}

}  // namespace comm::detail
