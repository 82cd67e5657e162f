#include "comm/trace/table.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <set>
#include <tuple>

#include "comm/trace/signature.h"
#include "comm/trace/words.h"

namespace comm::trace {
namespace {

constexpr std::uint64_t kBefore = 3;
constexpr std::uint64_t kAfter = 2;
constexpr std::size_t kMostLines = 40;

std::string cut(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  return text.substr(0, most - 3) + "...";
}

std::string line(const std::string& mark, const std::string& number, const std::string& ranks,
                 const std::string& what, const std::string& state, const std::string& when) {
  char text[256];
  std::snprintf(text, sizeof text, "%1s %10s  %-15s %-36s %-16s %s", mark.c_str(), number.c_str(),
                cut(ranks, 15).c_str(), cut(what, 36).c_str(), cut(state, 16).c_str(),
                cut(when, 15).c_str());
  std::string result(text);
  result.erase(result.find_last_not_of(' ') + 1);
  return result + "\n";
}

std::string short_state(const Entry& e) {
  if (e.state == State::failed) return comm::to_string(e.result);
  return to_string(e.state);
}

/// Ranks in one line: they did the same and came as far.
struct Line {
  std::vector<int> ranks;
  const Entry* entry = nullptr;
  std::int64_t first = 0;
};

using Key = std::tuple<Signature, Operation, State, StatusCode>;

void add_collective(std::string& text, const View& view, std::uint64_t number, bool is_marked) {
  std::map<Key, Line> lines;
  std::set<int> seen;
  for (const Call& call : view.calls_of(number)) {
    const Entry& e = *call.entry;
    const int rank = view.rows()[static_cast<std::size_t>(call.row)].rank();
    Line& to = lines[{signature(e), e.op, e.state, e.result}];
    to.first = to.entry == nullptr ? e.submitted : std::min(to.first, e.submitted);
    to.entry = &e;
    to.ranks.push_back(rank);
    seen.insert(rank);
  }
  std::vector<Line> in_order;
  for (auto& [key, one] : lines) in_order.push_back(std::move(one));
  std::sort(in_order.begin(), in_order.end(),
            [](const Line& a, const Line& b) { return a.ranks.front() < b.ranks.front(); });
  std::string label = std::to_string(number);
  for (const Line& one : in_order) {
    text += line(is_marked ? ">" : "", label, list_ranks(one.ranks), describe(*one.entry),
                 short_state(*one.entry), time_of_day(one.first));
    label.clear();
  }
  std::vector<int> gone;
  std::vector<int> absent;
  for (const Row& row : view.rows()) {
    if (seen.count(row.rank()) != 0) continue;
    (row.last() >= number ? gone : absent).push_back(row.rank());
  }
  if (!gone.empty())
    text += line(is_marked ? ">" : "", label, list_ranks(gone), "(no longer in the ring)", "", "");
  if (!absent.empty()) {
    if (!gone.empty()) label.clear();
    text += line(is_marked ? ">" : "", label, list_ranks(absent), "(not submitted)", "", "");
  }
}

/// Where the sentence is about no collective: the last that each of its ranks submitted.
void add_last(std::string& text, const View& view, const Report& report) {
  constexpr std::size_t kEach = 4;
  std::set<std::pair<int, std::uint64_t>> marked;
  std::vector<int> ranks;
  if (!report.findings.empty()) {
    for (const Mark& mark : report.findings.front().marks) {
      marked.insert({mark.rank, mark.seq});
      ranks.push_back(mark.rank);
    }
    for (const int rank : report.findings.front().ranks) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::size_t lines = 0;
  for (const Dump& dump : view.world().dumps) {
    if (!std::binary_search(ranks.begin(), ranks.end(), dump.rank)) continue;
    const std::size_t size = dump.entries.size();
    std::size_t from = size > kEach ? size - kEach : 0;
    for (std::size_t i = 0; i < from; ++i)
      if (marked.count({dump.rank, dump.entries[i].seq}) != 0) from = i > 1 ? i - 1 : 0;
    for (std::size_t i = from; i < size && i < from + kEach && lines < kMostLines; ++i, ++lines) {
      const Entry& e = dump.entries[i];
      const bool is_marked = marked.count({dump.rank, e.seq}) != 0;
      text += line(is_marked ? ">" : "", "seq " + std::to_string(e.seq),
                   "rank " + std::to_string(dump.rank), describe(e), short_state(e),
                   time_of_day(e.submitted));
    }
  }
}

}  // namespace

std::string table(const View& view, const Report& report) {
  std::uint64_t number = report.findings.empty() ? 0 : report.findings.front().collective;
  const bool is_about_one = number != 0;
  std::string text;
  if (!is_about_one && !report.findings.empty()) {
    text = line("", "", "rank", "operation", "state", "submitted (UTC)");
    add_last(text, view, report);
    return text;
  }
  if (view.calls().empty()) return text;
  if (!is_about_one) number = view.calls().back().number;
  text = line("", "collective", "ranks", "operation", "state", "submitted (UTC)");
  const std::uint64_t oldest = view.calls().front().number;
  const std::uint64_t from = std::max(oldest, number > kBefore ? number - kBefore : 1);
  for (std::uint64_t n = from; n <= number + kAfter; ++n) {
    const bool is_known = !view.calls_of(n).empty();
    if (is_known || (n == number && is_about_one))
      add_collective(text, view, n, n == number && is_about_one);
  }
  return text;
}

}  // namespace comm::trace
