#include "comm/decorators/checked_calls.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <string>

namespace comm::detail {
namespace {

constexpr int kDigestBits = 48;

/// SplitMix64: each bit of the result depends on each of `x`.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

[[gnu::format(printf, 2, 3)]] void append(std::string& text, const char* format, ...) {
  char part[128];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(part, sizeof part, format, arguments);
  va_end(arguments);
  text += part;
}

/// "all_reduce(f32, 1000 elements, sum)". What `other` has equal and nobody would guess is left out.
std::string describe(const Fingerprint& f, const Fingerprint& other) {
  std::string text = std::string(to_string(f.operation)) + "(";
  const auto count = static_cast<unsigned long long>(f.count);
  switch (f.operation) {
    case Operation::barrier:
    case Operation::group_end: break;
    case Operation::split:
      if (f.root != -1) append(text, "color %d", f.root);
      break;
    case Operation::shrink: append(text, "%llu ranks excluded", count); break;
    case Operation::symmetric_alloc: append(text, "%llu bytes", count); break;
    case Operation::all_to_all_v: text += to_string(f.type); break;
    default: append(text, "%s, %llu elements", to_string(f.type), count);
  }
  constexpr const char* kKinds[] = {"sum", "prod", "min", "max", "avg", "premul_sum"};
  if (f.reduction > 0) append(text, ", %s", kKinds[(f.reduction - 1) % std::size(kKinds)]);
  if (f.root >= 0 && f.operation != Operation::split) append(text, ", root %d", f.root);
  text += ")";
  if (f.place != other.place && f.place == 0) text += " in no group";
  if (f.place != other.place && f.place != 0) append(text, " as call %u of a group", f.place);
  if (f.registrations != other.registrations)
    append(text, " after %llu registrations (digest %012llx)",
           static_cast<unsigned long long>(f.registrations >> kDigestBits),
           static_cast<unsigned long long>(f.registrations & ((1ull << kDigestBits) - 1)));
  if (f.sequence != other.sequence) append(text, " as its seq %u", f.sequence);
  return text;
}

/// "ranks 0, 2 and 5 more".
std::string name_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (std::size_t i = 0; i < std::min<std::size_t>(ranks.size(), 8); ++i)
    append(text, "%s %d", i == 0 ? "" : ",", ranks[i]);
  if (ranks.size() > 8) append(text, " and %zu more", ranks.size() - 8);
  return text;
}

/// Who calls what: the same words on every rank.
std::string describe_all(const std::vector<Fingerprint>& all) {
  std::string text;
  std::vector<bool> is_said(all.size());
  for (std::size_t i = 0, sides = 0; i < all.size(); ++i) {
    if (is_said[i]) continue;
    if (++sides > 3) return text + "; others call yet others";
    std::vector<int> ranks;
    const Fingerprint* other = nullptr;
    for (std::size_t r = 0; r < all.size(); ++r) {
      if (!all[r].fits(all[i])) {
        if (other == nullptr) other = &all[r];
        continue;
      }
      is_said[r] = true;
      ranks.push_back(static_cast<int>(r));
    }
    text += (sides > 1 ? "; " : "") + name_ranks(ranks) + ": " +
            describe(all[i], other == nullptr ? all[i] : *other);
  }
  return text;
}

std::uint64_t pair_digest(int from, int to, std::size_t count) {
  return mix(mix(mix(static_cast<std::uint64_t>(from)) + static_cast<std::uint64_t>(to)) + count);
}

/// Which count was not the one expected. The digests of some pairs of ranks add up to zero if none is
/// among them, so halving finds it, in exchanges whose sum alone is told.
std::string find_wrong_count(const Counts& counts, Exchange exchange, const Ranks& ranks) {
  const int me = ranks.rank;
  std::vector<std::uint64_t> all(static_cast<std::size_t>(ranks.size));
  bool is_known = true;
  const auto add_up = [&](std::uint64_t mine) {
    exchange.mine = &mine;
    exchange.all = all.data();
    exchange.bytes = sizeof mine;
    exchange.sums_last = true;
    is_known = is_known && ranks.exchange(ranks.backend, exchange).ok();
    std::uint64_t sum = 0;
    for (const std::uint64_t part : all) sum += part;
    return sum;
  };
  const auto is_wrong_among = [&](auto is_meant) {
    std::uint64_t mine = 0;
    for (int peer = 0; peer < ranks.size; ++peer) {
      if (is_meant(me, peer)) mine += pair_digest(me, peer, counts.send[peer]);
      if (is_meant(peer, me)) mine -= pair_digest(peer, me, counts.recv[peer]);
    }
    return add_up(mine) != 0;
  };
  const auto halve = [&](auto is_wrong_below) {
    int first = 0;
    for (int end = ranks.size; end - first > 1 && is_known;) {
      const int middle = first + (end - first) / 2;
      (is_wrong_below(first, middle) ? end : first) = middle;
    }
    return first;
  };
  const int to = halve([&](int first, int end) {
    return is_wrong_among([=](int, int other) { return first <= other && other < end; });
  });
  const int from = halve([&](int first, int end) {
    return is_wrong_among(
        [=](int one, int other) { return first <= one && one < end && other == to; });
  });
  const std::uint64_t sent = add_up(me == from ? counts.send[to] : 0);
  const std::uint64_t expected = add_up(me == to ? counts.recv[from] : 0);
  std::string text = "what some rank sends is not what its peer expects";
  if (!is_known) return text;
  text.clear();
  append(text, "rank %d sends %llu elements to rank %d, which expects %llu", from,
         static_cast<unsigned long long>(sent), to, static_cast<unsigned long long>(expected));
  return text;
}

}  // namespace

bool Fingerprint::fits(const Fingerprint& o) const {
  return sequence == o.sequence && place == o.place && count == o.count &&
         registrations == o.registrations && excluded == o.excluded && root == o.root &&
         operation == o.operation && type == o.type && reduction == o.reduction;
}

std::uint64_t CheckedCalls::digest(const Counts& counts, int rank, int size) {
  // Over all ranks the sum is zero if each count sent is expected: each appears with both signs.
  std::uint64_t sum = 0;
  for (int peer = 0; peer < size; ++peer)
    sum += pair_digest(rank, peer, counts.send[peer]) - pair_digest(peer, rank, counts.recv[peer]);
  return sum;
}

void CheckedCalls::add_registration(std::uint64_t what) {
  constexpr std::uint64_t kOne = std::uint64_t{1} << kDigestBits;
  const std::uint64_t digest = mix(mix(registrations_) ^ what) & (kOne - 1);
  registrations_ = ((registrations_ & ~(kOne - 1)) + kOne) | digest;
}

Fingerprint CheckedCalls::origin(const ops::Shrink& op) const {
  Fingerprint f;
  f.operation = Operation::shrink;
  std::vector<int> excluded(op.excluded, op.excluded + op.excluded_count);
  std::sort(excluded.begin(), excluded.end());
  excluded.erase(std::unique(excluded.begin(), excluded.end()), excluded.end());
  f.count = excluded.size();
  for (const int rank : excluded) f.excluded = mix(f.excluded + static_cast<std::uint64_t>(rank));
  return f;
}

Status CheckedCalls::compare(const Fingerprint& mine, const Counts& counts, Operation operation,
                             const Ranks& ranks) {
  all_.resize(static_cast<std::size_t>(ranks.size));
  Exchange exchange{operation, &mine, all_.data(), sizeof mine, {}};
  // What each sends and expects is nobody else's affair while it adds up.
  exchange.sums_last = counts.send != nullptr;
  // A worker may wait for its next command as long as it takes.
  if (operation == Operation::recv_command_u32) exchange.timeout = Timeout::never();
  Status met = ranks.exchange(ranks.backend, exchange);
  const auto declare = [&](const Status& cause) {
    return ranks.declare_unhealthy(ranks.backend, operation, cause);
  };
  if (!met.ok()) {
    if (met.code() == StatusCode::unhealthy || met.code() == StatusCode::invalid_argument)
      return met;
    Status cause = make_error(
        met.code(), met.native_code(), "%s on rank %d of %d (epoch %llu): before seq %u, %s: %s",
        to_string(operation), ranks.rank, ranks.size, static_cast<unsigned long long>(ranks.epoch),
        mine.sequence, describe(mine, mine).c_str(), met.message());
    // A backend that has made itself unhealthy keeps its own words; these say more.
    declare(cause).ignore();
    return cause;
  }
  bool fit = true;
  std::uint64_t sum = 0;
  for (const Fingerprint& other : all_) {
    fit = fit && other.fits(mine);
    sum += other.extra;
  }
  std::string wrong;
  if (!fit) wrong = describe_all(all_);
  if (fit && counts.send != nullptr && sum != 0) wrong = find_wrong_count(counts, exchange, ranks);
  if (fit && operation == Operation::split && mine.root >= 0) {
    const auto key = [](const Fingerprint& f) { return static_cast<std::int32_t>(f.extra); };
    const auto descends = [&](const Fingerprint& a, const Fingerprint& b) {
      return key(a) > key(b);
    };
    if (std::adjacent_find(all_.begin(), all_.end(), descends) != all_.end())
      wrong = "the ranks of the new communicator are not in the order of their keys";
  }
  if (wrong.empty()) return {};
  return declare(make_error(StatusCode::mismatch, 0, "ranks make different calls at seq %u: %s",
                            mine.sequence, wrong.c_str()));
}

}  // namespace comm::detail
