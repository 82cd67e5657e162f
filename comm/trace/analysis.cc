#include "comm/trace/analysis.h"

#include <algorithm>
#include <span>
#include <utility>

#include "comm/trace/words.h"

namespace comm::trace {
namespace {

std::vector<int> ranks_of(std::span<const Row> rows) {
  std::vector<int> ranks;
  for (const Row& row : rows) ranks.push_back(row.rank());
  return ranks;
}

/// The call that failed first, of the calls that failed for another reason than their arguments.
const Entry* failed_entry(const Dump& dump) {
  for (const Entry& entry : dump.entries)
    if (entry.seq == dump.failure.seq) return &entry;
  return nullptr;
}

void find_behind(const View& view, std::vector<Finding>& findings) {
  if (view.behind().empty()) return;
  Finding finding{Kind::epochs, {}, {}};
  for (const Dump* dump : view.behind()) {
    finding.ranks.push_back(dump->rank);
    if (!dump->entries.empty()) finding.marks.push_back({dump->rank, dump->entries.back().seq});
  }
  const Dump& first = *view.behind().front();
  const bool is_one = finding.ranks.size() == 1;
  finding.sentence = name_ranks(finding.ranks) + (is_one ? " is" : " are") + " still in epoch " +
                     std::to_string(first.epoch) + ", while " + name_ranks(ranks_of(view.rows())) +
                     (view.rows().size() == 1 ? " is" : " are") + " in epoch " +
                     std::to_string(view.epoch()) + "; " + (is_one ? "its" : "the first one's") +
                     " last submission was " + last_submission(first);
  findings.push_back(std::move(finding));
}

/// Some wait in attempt_reconnect for others that do not come.
void find_unjoined(const View& view, std::vector<Finding>& findings) {
  Finding finding{Kind::reconnect, {}, {}};
  std::vector<int> callers;
  const Row* absent = nullptr;
  for (const Row& row : view.rows()) {
    const Entry* last = row.entries.empty() ? nullptr : &row.entries.back();
    if (last != nullptr && last->op == Operation::attempt_reconnect &&
        (last->state == State::started || last->state == State::failed)) {
      callers.push_back(row.rank());
      finding.marks.push_back({row.rank(), last->seq});
    } else {
      finding.ranks.push_back(row.rank());
      if (absent == nullptr) absent = &row;
    }
  }
  if (callers.empty() || absent == nullptr) return;
  finding.sentence = name_ranks(finding.ranks) + " did not call attempt_reconnect, which " +
                     name_ranks(callers) + " called; " +
                     (finding.ranks.size() == 1 ? "its" : "the first one's") +
                     " last submission was " + last_submission(*absent->dump);
  findings.push_back(std::move(finding));
}

bool waits_for_stream(Operation op) {
  return op == Operation::synchronize || op == Operation::broadcast ||
         op == Operation::recv_command_u32 || op == Operation::barrier_wait;
}

/// What a rank in trouble is in: the last call that has not returned for long, or that failed.
const Entry* trouble_of(const View& view, const Row& row) {
  for (std::size_t i = row.entries.size(); i-- > 0;) {
    const Entry& entry = row.entries[i];
    if (view.waits_long(row, entry) || entry.seq == row.dump->failure.seq) return &entry;
  }
  return nullptr;
}

/// The first collective that a rank in trouble waits for; null if it is none that it waits for.
const Entry* pending_of(const View& view, const Row& row) {
  const Entry* trouble = trouble_of(view, row);
  if (trouble == nullptr) return nullptr;
  const Entry* first = trouble->collective != 0 ? trouble : nullptr;
  const bool is_wait = waits_for_stream(trouble->op);
  if (!is_wait && trouble->op != Operation::group_end) return first;
  // What was submitted before, on the stream waited for or in the group that ends.
  for (const Entry* e = trouble; e-- != row.entries.data();) {
    if (is_wait ? e->stream != trouble->stream : !e->in_group) continue;
    if (e->state == State::complete) break;
    if (e->state == State::returned && e->collective != 0) first = e;
  }
  return first;
}

/// 0 if there is none.
std::uint64_t first_pending(const View& view) {
  std::uint64_t first = 0;
  for (const Row& row : view.rows()) {
    const Entry* entry = pending_of(view, row);
    if (entry != nullptr && (first == 0 || entry->collective < first)) first = entry->collective;
  }
  return first;
}

struct Progress {
  std::vector<int> done;
  std::vector<int> pending;
  std::vector<Mark> marks;
};

Progress progress_at(const View& view, std::uint64_t number) {
  Progress progress;
  for (const Call& call : view.calls_of(number)) {
    const int rank = view.rows()[static_cast<std::size_t>(call.row)].rank();
    if (call.entry->state == State::complete) {
      progress.done.push_back(rank);
    } else {
      progress.pending.push_back(rank);
      progress.marks.push_back({rank, call.entry->seq});
    }
  }
  return progress;
}

void find_missing(const View& view, std::uint64_t pending, std::vector<Finding>& findings) {
  const std::vector<int>& missing = view.world().missing;
  if (missing.empty()) return;
  Finding finding{Kind::missing, {}, missing, pending};
  finding.sentence = "there is no dump of " + name_ranks(missing);
  if (pending != 0) {
    Progress progress = progress_at(view, pending);
    finding.marks = std::move(progress.marks);
    finding.sentence +=
        "; " + name_ranks(progress.pending) + " submitted " + collective_name(view, pending) +
        ", " + describe(*view.calls_of(pending).front().entry) + ", and did not complete it";
  } else {
    finding.sentence += "; the others agree on all that they recorded";
  }
  findings.push_back(std::move(finding));
}

void find_stuck(const View& view, std::uint64_t pending, std::vector<Finding>& findings) {
  if (pending == 0) return;
  Progress progress = progress_at(view, pending);
  const std::string what =
      collective_name(view, pending) + ", " + describe(*view.calls_of(pending).front().entry);
  Finding finding{Kind::stuck, {}, progress.pending, pending, std::move(progress.marks)};
  const bool is_all = progress.pending.size() == static_cast<std::size_t>(view.world().size);
  if (!progress.done.empty())
    finding.sentence = name_ranks(progress.pending) + " submitted " + what +
                       ", and did not complete it, as " + name_ranks(progress.done) + " did";
  else
    finding.sentence = (is_all ? "all " + std::to_string(view.world().size) + " ranks"
                               : name_ranks(progress.pending)) +
                       " submitted " + what + ", and " + (is_all ? "none" : "no one") +
                       " completed it";
  const std::uint64_t last = view.calls().back().number;
  if (last == pending + 1) finding.sentence += "; the next one waits behind it";
  if (last > pending + 1)
    finding.sentence += "; " + std::to_string(last - pending) + " more wait behind it";
  findings.push_back(std::move(finding));
}

/// The rank that failed first, in its own words.
void find_failed(const View& view, std::vector<Finding>& findings, std::string& first_failure) {
  const Row* first = nullptr;
  std::int64_t when = 0;
  for (const Row& row : view.rows()) {
    if (row.dump->failure.seq == 0) continue;
    const Entry* entry = failed_entry(*row.dump);
    const std::int64_t at = entry != nullptr && entry->ended != 0 ? entry->ended : row.dump->dumped;
    if (first != nullptr && at >= when) continue;
    first = &row;
    when = at;
  }
  if (first == nullptr) return;
  const Dump& dump = *first->dump;
  const Entry* entry = failed_entry(dump);
  const std::string what =
      entry == nullptr ? "submission " + std::to_string(dump.failure.seq) : describe(*entry);
  first_failure = "rank " + std::to_string(dump.rank) + ", " + what + ": " +
                  to_string(dump.failure.code) + ": " + dump.failure.message;
  findings.push_back({Kind::failed,
                      "rank " + std::to_string(dump.rank) + "'s " + what + " in epoch " +
                          std::to_string(view.epoch()) + " failed (" +
                          to_string(dump.failure.code) + "); the ranks agree on all collectives",
                      {dump.rank},
                      entry == nullptr ? 0 : entry->collective,
                      {{dump.rank, dump.failure.seq}}});
}

std::string if_nothing_is_wrong(const View& view) {
  std::uint64_t least = ~std::uint64_t{0};
  std::uint64_t most = 0;
  std::vector<int> idle;
  for (const Row& row : view.rows()) {
    least = std::min(least, row.last());
    most = std::max(most, row.last());
    if (!row.entries.empty() && row.entries.back().op == Operation::recv_command_u32 &&
        row.entries.back().state == State::started)
      idle.push_back(row.rank());
  }
  std::string text = "nothing wrong found: the ranks agree on all collectives; epoch " +
                     std::to_string(view.epoch()) + ", " + std::to_string(least) +
                     (least == most ? "" : " to " + std::to_string(most)) + " of them submitted";
  if (!idle.empty())
    text += "; " + name_ranks(idle) + (idle.size() == 1 ? " waits" : " wait") + " for a command";
  return text;
}

}  // namespace

std::string collective_name(const View& view, std::uint64_t number) {
  return "collective " + std::to_string(number) + " of epoch " + std::to_string(view.epoch());
}

std::string last_submission(const Dump& dump) {
  if (dump.entries.empty()) return dump.submissions == 0 ? "none at all" : "not recorded";
  const Entry& last = dump.entries.back();
  std::string text = describe(last);
  if (last.collective != 0) text += ", collective " + std::to_string(last.collective);
  return text + ", " + describe_state(last);
}

Report analyse(const View& view) {
  Report report;
  find_behind(view, report.findings);
  find_differing(view, report.findings);
  const bool do_differ = !report.findings.empty() && report.findings.back().kind == Kind::differ;
  // Where numbers no longer mean the same call, who lags behind whom cannot be said.
  if (!do_differ) find_lagging(view, report.findings);
  find_unmatched_messages(view, report.findings);
  find_unjoined(view, report.findings);
  const std::uint64_t pending = first_pending(view);
  find_missing(view, pending, report.findings);
  if (report.findings.empty()) find_stuck(view, pending, report.findings);
  std::vector<Finding> failures;
  find_failed(view, failures, report.first_failure);
  if (report.findings.empty()) report.findings = std::move(failures);
  if (report.findings.empty()) report.otherwise = if_nothing_is_wrong(view);
  return report;
}

}  // namespace comm::trace
