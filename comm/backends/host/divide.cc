/// How a team becomes smaller ones, in the same file and without a rendezvous: somebody reserves
/// memory and the others are told where.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "comm/backends/host/state.h"

namespace comm::detail::host {

namespace {

struct Choice {
  std::int32_t color;
  std::int32_t key;
};

struct Outcome {
  std::uint64_t offset;
  std::uint32_t code;
  std::int32_t native_code;
};

std::vector<int> in_world(const Team& team, const std::vector<int>& ranks) {
  std::vector<int> members;
  for (int r : ranks) members.push_back(team.members()[static_cast<std::size_t>(r)]);
  return members;
}

Result<std::uint64_t> reserve_team(Team& team, const std::vector<int>& ranks) {
  const Layout layout = Layout::of(static_cast<int>(ranks.size()), team.world().slot_bytes);
  return team.world().file.reserve(layout.total(), "a smaller communicator",
                                   pieces_of(layout, team.world().nodes_of(in_world(team, ranks))));
}

Status failed_elsewhere(Team& team, Operation operation, int rank, std::uint32_t code,
                        int native_code) {
  return make_error(static_cast<StatusCode>(code), native_code,
                    "%s on %s: %s could not make its part: %s", to_string(operation),
                    team.where().text, team.name(rank).text, std::strerror(native_code));
}

}  // namespace

Result<std::unique_ptr<Team>> split(Team& team, int color, int key, std::int64_t timeout_ns) {
  Call call(team, {Operation::split}, 0, timeout_ns);
  const Choice own{color, key};
  Status met = call.meet(&own, sizeof own);
  if (!met.ok()) return met;
  std::vector<Choice> choices(static_cast<std::size_t>(team.size()));
  std::vector<int> ranks;
  for (int r = 0; r < team.size(); ++r) {
    Choice& choice = choices[static_cast<std::size_t>(r)];
    std::memcpy(&choice, call.payload(r), sizeof choice);
    if (color >= 0 && choice.color == color) ranks.push_back(r);
  }
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return choices[static_cast<std::size_t>(a)].key < choices[static_cast<std::size_t>(b)].key;
  });

  // The first of each color reserves; then all say whether they could attach. Ranks without a color
  // go through the same ticks.
  const bool leads = !ranks.empty() && ranks.front() == team.rank();
  Result<std::uint64_t> place = std::uint64_t{0};
  if (leads) place = reserve_team(team, ranks);
  Outcome outcome{place.ok() ? *place : 0, static_cast<std::uint32_t>(place.code()),
                  place.status().native_code()};
  met = call.meet(&outcome, sizeof outcome);
  if (!met.ok()) return met;
  Outcome lead{};
  if (!ranks.empty()) std::memcpy(&lead, call.payload(ranks.front()), sizeof lead);
  const bool reserved = static_cast<StatusCode>(lead.code) == StatusCode::ok;

  std::unique_ptr<Team> part;
  Status attached;
  if (!ranks.empty() && reserved) {
    const auto rank = std::find(ranks.begin(), ranks.end(), team.rank()) - ranks.begin();
    Result<std::unique_ptr<Team>> made = Team::attach(team.shared_world(), in_world(team, ranks),
                                                      static_cast<int>(rank), lead.offset);
    if (made.ok())
      part = std::move(*made);
    else
      attached = std::move(made).status();
  }
  outcome = {0, static_cast<std::uint32_t>(attached.code()), attached.native_code()};
  met = call.meet(&outcome, sizeof outcome);
  if (!met.ok()) return met;
  if (!place.ok()) return std::move(place).status();
  if (!attached.ok()) return attached;
  if (!reserved)
    return failed_elsewhere(team, Operation::split, ranks.front(), lead.code, lead.native_code);
  for (int r : ranks) {
    std::memcpy(&outcome, call.payload(r), sizeof outcome);
    if (static_cast<StatusCode>(outcome.code) != StatusCode::ok)
      return failed_elsewhere(team, Operation::split, r, outcome.code, outcome.native_code);
  }
  return part;
}

Result<std::unique_ptr<Team>> shrink(Team& team, const int* excluded, std::size_t n,
                                     std::int64_t timeout_ns) {
  std::uint64_t mask = team.size() == kMaxRanks ? ~std::uint64_t{0} : bit(team.size()) - 1;
  for (std::size_t i = 0; i < n; ++i) mask &= ~bit(excluded[i]);
  std::vector<int> ranks;
  for (int r = 0; r < team.size(); ++r)
    if ((mask & bit(r)) != 0) ranks.push_back(r);

  // The team may have failed, so its ticks cannot be used; these words serve nothing else.
  RankLines& own = team.lines(team.rank());
  const std::uint32_t call = own.shrink_calls.load() + 1;
  own.shrink_mask.store(mask);
  own.shrink_error.store(0);
  own.shrink_calls.store(call);
  team.announce();
  const auto wait_for = [&](auto word) {
    auto missing = [&] {
      std::uint64_t late = 0;
      for (int r : ranks)
        if (static_cast<std::int32_t>((team.lines(r).*word).load(std::memory_order_acquire) -
                                      call) < 0)
          late |= bit(r);
      return late;
    };
    return team.wait_regardless(Missing(missing), timeout_ns, Operation::shrink);
  };
  Status met = wait_for(&RankLines::shrink_calls);
  if (!met.ok()) return met;
  for (int r : ranks)
    if (team.lines(r).shrink_mask.load() != mask)
      return make_error(StatusCode::mismatch, 0,
                        "shrink on %s: %s excludes other ranks (remaining: %#llx there, "
                        "%#llx here, as bits)",
                        team.where().text, team.name(r).text,
                        static_cast<unsigned long long>(team.lines(r).shrink_mask.load()),
                        static_cast<unsigned long long>(mask));

  const int leader = ranks.front();
  Status failed;
  if (leader == team.rank()) {
    Result<std::uint64_t> place = reserve_team(team, ranks);
    own.shrink_offset.store(place.ok() ? *place : 0);
    failed = std::move(place).status();
  }
  own.shrink_answers.store(call);
  team.announce();
  met = wait_for(&RankLines::shrink_answers);
  if (!met.ok()) return met;

  std::unique_ptr<Team> rest;
  const std::uint64_t offset = team.lines(leader).shrink_offset.load();
  if (offset != 0) {
    const auto rank = std::find(ranks.begin(), ranks.end(), team.rank()) - ranks.begin();
    Result<std::unique_ptr<Team>> made =
        Team::attach(team.shared_world(), in_world(team, ranks), static_cast<int>(rank), offset);
    if (made.ok())
      rest = std::move(*made);
    else
      failed = std::move(made).status();
  }
  own.shrink_error.store(failed.ok() ? 0 : std::max(failed.native_code(), 1));
  own.shrink_acknowledged.store(call);
  team.announce();
  met = wait_for(&RankLines::shrink_acknowledged);
  if (!met.ok()) return met;
  if (!failed.ok()) return failed;
  for (int r : ranks)
    if (const int error = team.lines(r).shrink_error.load(); error != 0)
      return failed_elsewhere(team, Operation::shrink, r,
                              static_cast<std::uint32_t>(StatusCode::internal), error);
  return rest;
}

}  // namespace comm::detail::host
