#include "comm/trace/world.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace comm::trace {
namespace {

/// Dumps of one rank of one name, in the order in which their recorders were made.
using Generations = std::vector<Dump>;
using ByRank = std::map<int, Generations>;

bool are_of_one_recorder(const Dump& a, const Dump& b) {
  return a.created == b.created && a.pid == b.pid && a.host == b.host;
}

void keep_latest_of_each(Generations& dumps) {
  std::sort(dumps.begin(), dumps.end(), [](const Dump& a, const Dump& b) {
    return std::tie(a.created, a.host, a.pid, a.submissions, a.dumped) <
           std::tie(b.created, b.host, b.pid, b.submissions, b.dumped);
  });
  Generations kept;
  for (Dump& dump : dumps) {
    if (!kept.empty() && are_of_one_recorder(kept.back(), dump))
      kept.back() = std::move(dump);
    else
      kept.push_back(std::move(dump));
  }
  dumps = std::move(kept);
}

World world_of(const std::string& name, int size, ByRank& by_rank, std::size_t generation) {
  World world;
  world.name = name;
  world.size = size;
  for (int rank = 0; rank < size; ++rank) {
    const auto found = by_rank.find(rank);
    if (found == by_rank.end())
      world.missing.push_back(rank);
    else
      world.dumps.push_back(std::move(found->second[generation]));
  }
  return world;
}

/// Where every rank has as many, they are as many communicators, made in one order. Otherwise a rank
/// was started again, and what it is now counts.
void add_worlds(std::vector<World>& worlds, const std::string& name, int size, ByRank& by_rank) {
  std::size_t fewest = ~std::size_t{0};
  std::size_t most = 0;
  for (auto& [rank, dumps] : by_rank) {
    keep_latest_of_each(dumps);
    fewest = std::min(fewest, dumps.size());
    most = std::max(most, dumps.size());
  }
  if (fewest == most) {
    for (std::size_t i = 0; i < most; ++i)
      worlds.push_back(
          world_of(i == 0 ? name : name + " #" + std::to_string(i + 1), size, by_rank, i));
    return;
  }
  std::vector<std::string> notes;
  for (auto& [rank, dumps] : by_rank) {
    for (std::size_t i = 0; i + 1 < dumps.size(); ++i)
      notes.push_back("left out, since rank " + std::to_string(rank) +
                      " has a later one: " + dumps[i].file);
    if (dumps.size() > 1) dumps.front() = std::move(dumps.back());
  }
  worlds.push_back(world_of(name, size, by_rank, 0));
  worlds.back().notes = std::move(notes);
}

}  // namespace

std::vector<World> sort_into_worlds(std::vector<Dump> dumps) {
  std::map<std::pair<std::string, int>, ByRank> by_name;
  for (Dump& dump : dumps)
    by_name[{dump.name, dump.world_size}][dump.rank].push_back(std::move(dump));
  std::vector<World> worlds;
  for (auto& [key, by_rank] : by_name) add_worlds(worlds, key.first, key.second, by_rank);
  return worlds;
}

}  // namespace comm::trace
