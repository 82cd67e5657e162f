#include "comm/trace/view.h"

#include <algorithm>
#include <tuple>

namespace comm::trace {
namespace {

bool comes_before(const Call& a, const Call& b) {
  return std::tie(a.number, a.row) < std::tie(b.number, b.row);
}

Row row_of(const Dump& dump, std::uint64_t epoch) {
  const std::span<const Entry> all(dump.entries);
  std::size_t first = all.size();
  while (first > 0 && all[first - 1].epoch == epoch) --first;
  return {&dump, all.subspan(first), first > 0 || all.empty() || all.front().seq == 1};
}

}  // namespace

View::View(const World& world, std::int64_t patience_ns)
    : world_(world), patience_ns_(patience_ns) {
  for (const Dump& dump : world.dumps) epoch_ = std::max(epoch_, dump.epoch);
  std::size_t total = 0;
  for (const Dump& dump : world.dumps) total += dump.entries.size();
  calls_.reserve(total);
  for (const Dump& dump : world.dumps) {
    if (dump.epoch != epoch_) {
      behind_.push_back(&dump);
      continue;
    }
    const int index = static_cast<int>(rows_.size());
    rows_.push_back(row_of(dump, epoch_));
    for (const Entry& entry : rows_.back().entries)
      if (entry.collective != 0) calls_.push_back({entry.collective, index, &entry});
    is_troubled_ = is_troubled_ || is_troubled(rows_.back());
  }
  std::sort(calls_.begin(), calls_.end(), comes_before);
}

std::span<const Call> View::calls_of(std::uint64_t number) const {
  const auto begin =
      std::lower_bound(calls_.begin(), calls_.end(), Call{number, 0, nullptr}, comes_before);
  auto end = begin;
  while (end != calls_.end() && end->number == number) ++end;
  return {begin, end};
}

const Entry* View::call(int row, std::uint64_t number) const {
  const auto found =
      std::lower_bound(calls_.begin(), calls_.end(), Call{number, row, nullptr}, comes_before);
  return found != calls_.end() && found->number == number && found->row == row ? found->entry
                                                                               : nullptr;
}

bool View::waits_long(const Row& row, const Entry& entry) const {
  return entry.state == State::started && entry.op != Operation::recv_command_u32 &&
         row.dump->dumped - entry.submitted >= patience_ns_;
}

bool View::is_troubled(const Row& row) const {
  if (row.dump->failure.seq != 0) return true;
  return std::any_of(row.entries.begin(), row.entries.end(),
                     [&](const Entry& entry) { return waits_long(row, entry); });
}

}  // namespace comm::trace
