#include <algorithm>
#include <map>
#include <span>

#include "comm/trace/analysis.h"
#include "comm/trace/signature.h"
#include "comm/trace/words.h"

namespace comm::trace {
namespace {

/// Ranks that called the same, and one of their calls.
struct Camp {
  std::vector<int> ranks;
  int row = 0;
  const Entry* entry = nullptr;
};

std::vector<Camp> camps_of(const View& view, std::span<const Call> calls) {
  std::map<Signature, Camp> by_signature;
  for (const Call& call : calls) {
    Camp& camp = by_signature[signature(*call.entry)];
    if (camp.entry == nullptr) {
      camp.entry = call.entry;
      camp.row = call.row;
    }
    camp.ranks.push_back(view.rows()[static_cast<std::size_t>(call.row)].rank());
  }
  std::vector<Camp> camps;
  for (auto& [key, camp] : by_signature) camps.push_back(std::move(camp));
  std::stable_sort(camps.begin(), camps.end(), [](const Camp& a, const Camp& b) {
    if (a.ranks.size() != b.ranks.size()) return a.ranks.size() > b.ranks.size();
    return a.ranks.front() < b.ranks.front();
  });
  return camps;
}

bool are_same(const Entry* a, const Entry* b) {
  return a != nullptr && b != nullptr && signature(*a) == signature(*b);
}
bool may_be_same(const Entry* a, const Entry* b) {
  return a == nullptr || b == nullptr || signature(*a) == signature(*b);
}

/// Whether what the one row called from `one` on is what the other called from `other` on.
bool goes_on_as(const View& view, int a, std::uint64_t one, int b, std::uint64_t other) {
  return are_same(view.call(a, one), view.call(b, other)) &&
         may_be_same(view.call(a, one + 1), view.call(b, other + 1));
}

std::string called(const Camp& camp) {
  return name_ranks(camp.ranks) + " called " + describe(*camp.entry);
}

std::string sentence_of(const View& view, std::uint64_t n, const std::vector<Camp>& camps) {
  const Camp& many = camps.front();
  const Camp& few = camps.back();
  const std::string what = collective_name(view, n);
  const bool is_clear = camps.size() == 2 && few.ranks.size() < many.ranks.size();
  const bool missed = goes_on_as(view, few.row, n, many.row, n + 1);
  const bool added = goes_on_as(view, few.row, n + 1, many.row, n);
  const char* their = few.ranks.size() == 1 ? "its" : "their";
  if (is_clear && missed && !added)
    return name_ranks(few.ranks) + " did not submit " + what + ", " + describe(*many.entry) +
           ", that " + name_ranks(many.ranks) + " submitted: " + their + " collective " +
           std::to_string(n) + ", " + describe(*few.entry) + ", is the others' " +
           std::to_string(n + 1);
  if (is_clear && added && !missed)
    return name_ranks(few.ranks) + " submitted one that " + name_ranks(many.ranks) +
           " did not: " + their + " " + what + ", " + describe(*few.entry) + "; " + their + " " +
           std::to_string(n + 1) + " is the others' " + std::to_string(n) + ", " +
           describe(*many.entry);
  std::string text = called(few) + " as " + what + ", where " + called(many);
  if (camps.size() > 2) {
    text += ", and " + called(camps[1]);
    if (camps.size() > 3) text += ", and others called something else again";
  }
  return text + ": " + difference(signature(*few.entry), signature(*many.entry));
}

}  // namespace

void find_differing(const View& view, std::vector<Finding>& findings) {
  const std::vector<Call>& calls = view.calls();
  for (std::size_t i = 0; i < calls.size();) {
    std::size_t end = i;
    const Signature first = signature(*calls[i].entry);
    bool agree = true;
    for (; end < calls.size() && calls[end].number == calls[i].number; ++end)
      agree = agree && signature(*calls[end].entry) == first;
    if (agree) {
      i = end;
      continue;
    }
    const std::vector<Camp> camps = camps_of(view, std::span(calls).subspan(i, end - i));
    Finding finding{Kind::differ, sentence_of(view, calls[i].number, camps), {}, calls[i].number};
    const bool is_tie = camps.front().ranks.size() == camps.back().ranks.size();
    for (; i < end; ++i) {
      const int rank = view.rows()[static_cast<std::size_t>(calls[i].row)].rank();
      if (!is_tie && signature(*calls[i].entry) == signature(*camps.front().entry)) continue;
      finding.ranks.push_back(rank);
      finding.marks.push_back({rank, calls[i].entry->seq});
    }
    findings.push_back(std::move(finding));
    return;  // What comes after it follows from it.
  }
}

void find_lagging(const View& view, std::vector<Finding>& findings) {
  std::uint64_t least = ~std::uint64_t{0};
  std::uint64_t most = 0;
  for (const Row& row : view.rows()) {
    least = std::min(least, row.last());
    most = std::max(most, row.last());
  }
  if (view.rows().empty() || least == most) return;
  const std::uint64_t next = least + 1;
  const std::span<const Call> calls = view.calls_of(next);
  std::int64_t submitted = calls.empty() ? 0 : calls.front().entry->submitted;
  for (const Call& call : calls) submitted = std::min(submitted, call.entry->submitted);

  Finding finding{Kind::lag, {}, {}, next};
  std::vector<int> ahead;
  std::string last;
  bool may_be_old = false;
  for (const Row& row : view.rows()) {
    if (row.last() >= next) {
      ahead.push_back(row.rank());
      continue;
    }
    finding.ranks.push_back(row.rank());
    if (last.empty()) last = last_submission(*row.dump);
    may_be_old = may_be_old || (!calls.empty() && row.dump->dumped < submitted);
  }
  for (const Call& call : calls)
    finding.marks.push_back(
        {view.rows()[static_cast<std::size_t>(call.row)].rank(), call.entry->seq});
  // Dumps are not made all at once: it takes more than that one is ahead.
  if (!view.is_troubled()) return;

  const bool is_one = finding.ranks.size() == 1;
  finding.sentence = name_ranks(finding.ranks) + " did not submit " + collective_name(view, next);
  if (!calls.empty()) finding.sentence += ", " + describe(*calls.front().entry) + ",";
  finding.sentence += " that " + name_ranks(ahead) + " submitted; " +
                      (is_one ? "its" : "the first one's") + " last submission was " + last;
  if (may_be_old)
    finding.sentence += std::string(" (") + (is_one ? "its dump is" : "their dumps are") +
                        " older than that submission)";
  findings.push_back(std::move(finding));
}

}  // namespace comm::trace
