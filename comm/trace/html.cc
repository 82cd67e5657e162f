#include "comm/trace/html.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "comm/trace/table.h"
#include "comm/trace/timeline_assets.h"
#include "comm/trace/words.h"

namespace comm::trace {
namespace {

/// More than a browser draws with ease; each lane gets its share.
constexpr std::size_t kMostEntries = 200'000;
constexpr std::size_t kLeastOfLane = 16;
constexpr std::size_t kMostEmptyLanes = 64;

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '&': result += "&amp;"; break;
      case '"': result += "&quot;"; break;
      default: result += c;
    }
  }
  return result;
}

/// For JSON inside of a script element, which ends at the first "</script".
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      result += '\\', result += c;
    else if (c == '<')
      result += "\\u003c";
    else
      result += c;
  }
  return result + "\"";
}

/// Says each text once.
class Texts {
 public:
  std::size_t index(const std::string& text) {
    const auto [found, is_new] = numbers_.try_emplace(text, all_.size());
    if (is_new) all_.push_back(text);
    return found->second;
  }
  std::string json() const {
    std::string list = "[";
    for (const std::string& text : all_) list += (list.size() > 1 ? "," : "") + quoted(text);
    return list + "]";
  }

 private:
  std::unordered_map<std::string, std::size_t> numbers_;
  std::vector<std::string> all_;
};

class Data {
 public:
  Data(const View& view, const Report& report) : view_(view) {
    const std::size_t lanes = std::max<std::size_t>(view.world().dumps.size(), 1);
    most_ = std::max(kMostEntries / lanes, kLeastOfLane);
    if (!report.findings.empty()) {
      const Finding& told = report.findings.front();
      focus_ = told.collective;
      for (const Mark& mark : told.marks) marks_.insert({mark.rank, mark.seq});
      faulty_ = told.ranks;
    }
    for (const Dump& dump : view.world().dumps)
      if (!dump.entries.empty()) origin_ = std::min(origin_, dump.entries.front().submitted);
  }

  std::string json() {
    std::string lanes;
    const std::vector<Dump>& dumps = view_.world().dumps;
    const std::vector<int>& missing = view_.world().missing;
    std::size_t next = 0;
    for (std::size_t i = 0; i <= dumps.size(); ++i) {
      const int before = i < dumps.size() ? dumps[i].rank : view_.world().size;
      for (; next < missing.size() && missing[next] < before; ++next)
        if (next < kMostEmptyLanes) lanes += "{\"rank\":" + std::to_string(missing[next]) + "},\n";
      if (i < dumps.size()) add_lane(lanes, dumps[i]);
    }
    if (lanes.size() > 1) lanes.erase(lanes.size() - 2);
    std::string json = "{\"faulty\":[";
    for (std::size_t i = 0; i < std::min(faulty_.size(), std::size_t{1000}); ++i)
      json += (i == 0 ? "" : ",") + std::to_string(faulty_[i]);
    return json + "],\n\"texts\":" + texts_.json() + ",\n\"results\":" + results_.json() +
           ",\n\"lanes\":[\n" + lanes + "\n]}";
  }

  std::size_t left_out() const { return left_out_; }

 private:
  /// The part of a lane that is shown.
  std::span<const Entry> part_of(const Dump& dump) {
    const std::span<const Entry> all(dump.entries);
    if (all.size() <= most_) return all;
    std::size_t end = all.size();
    for (std::size_t i = 0; i < all.size() && focus_ != 0; ++i) {
      if (all[i].collective != focus_ || all[i].epoch != view_.epoch()) continue;
      end = std::min(all.size(), std::max(i + most_ / 4, most_));
      break;
    }
    left_out_ += all.size() - most_;
    return all.subspan(end - most_, most_);
  }

  void add_lane(std::string& to, const Dump& dump) {
    to += "{\"rank\":" + std::to_string(dump.rank) +
          ",\"dumped\":" + std::to_string(dump.dumped - origin_) + ",\"entries\":[";
    bool is_first = true;
    for (const Entry& e : part_of(dump)) {
      if (!std::exchange(is_first, false)) to += ",";
      const std::uint64_t number = e.epoch == view_.epoch() ? e.collective : 0;
      to += "\n[" + std::to_string(e.seq) + "," + std::to_string(number) + "," +
            std::to_string(e.submitted - origin_) + "," +
            std::to_string(e.ended != 0 ? e.ended - origin_ : -1) + "," +
            std::to_string(static_cast<int>(e.state)) + "," +
            std::to_string(texts_.index(describe(e))) + "," +
            std::to_string(results_.index(comm::to_string(e.result))) + "," +
            (marks_.count({dump.rank, e.seq}) != 0 ? "1]" : "0]");
    }
    to += "]},\n";
  }

  const View& view_;
  std::size_t most_;
  std::uint64_t focus_ = 0;
  std::set<std::pair<int, std::uint64_t>> marks_;
  std::vector<int> faulty_;
  std::int64_t origin_ = std::int64_t{1} << 62;
  Texts texts_;
  Texts results_;
  std::size_t left_out_ = 0;
};

constexpr const char* kHead =
    R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>)";

constexpr const char* kTools = R"(<div class="tools">
<fieldset><legend>Along</legend>
<label><input type="radio" name="axis" id="order" checked> the order of collectives</label>
<label><input type="radio" name="axis" id="time"> time</label></fieldset>
<span><button id="in" type="button">Zoom in</button>
<button id="out" type="button">Zoom out</button>
<button id="all" type="button">Show all</button>
<button id="mark" type="button">Go to the problem</button></span>
<ul class="key">
<li><canvas width="22" height="14" data-state="complete" aria-hidden="true"></canvas>complete</li>
<li><canvas width="22" height="14" data-state="returned" aria-hidden="true"></canvas>submitted, not seen complete</li>
<li><canvas width="22" height="14" data-state="started" aria-hidden="true"></canvas>started, not returned</li>
<li><canvas width="22" height="14" data-state="failed" aria-hidden="true"></canvas>failed</li>
</ul></div>
<div id="scroll"><canvas id="chart" tabindex="0" role="application"
 aria-label="Operations of each rank, one lane a rank. Arrow keys go from one to the next."
 aria-describedby="keys detail"></canvas><div id="space"></div></div>
<div id="tip" hidden></div>
<p id="detail" role="status" aria-live="polite"></p>
<p class="faint" id="keys">Arrow keys: operations and ranks. + and -: zoom. [ and ]: move.
0: show all. m: the problem. Wheel: zoom (with Ctrl where there are many ranks); drag: move.</p>
)";

}  // namespace

std::string html(const View& view, const Report& report) {
  const bool is_fine = report.findings.empty();
  const std::string sentence =
      escaped(is_fine ? report.otherwise : report.findings.front().sentence);
  Data data(view, report);
  const std::string json = data.json();
  std::string page = kHead + escaped(view.world().name) + ": comm_trace</title>\n<style>\n" +
                     kTimelineStyle + "</style>\n</head>\n<body>\n<main>\n<h1>" + sentence +
                     "</h1>\n";
  if (!report.first_failure.empty())
    page += "<p>First failure: " + escaped(report.first_failure) + "</p>\n";
  page += "<p class=\"faint\">" + escaped(view.world().name) + ", " +
          std::to_string(view.world().size) + (view.world().size == 1 ? " rank" : " ranks") +
          ", epoch " + std::to_string(view.epoch()) + "</p>\n";
  if (view.world().missing.size() > kMostEmptyLanes)
    page += "<p class=\"faint\">Of the ranks without a dump only the first " +
            std::to_string(kMostEmptyLanes) + " have a lane.</p>\n";
  if (data.left_out() != 0)
    page += "<p class=\"faint\">Shown is what is around the problem; " +
            std::to_string(data.left_out()) + " submissions are left out.</p>\n";
  page += kTools;
  page += "<details open><summary>The same as text</summary>\n<pre>" +
          escaped(table(view, report)) + "</pre></details>\n</main>\n";
  page += "<script type=\"application/json\" id=\"data\">" + json + "</script>\n<script>\n" +
          kTimelineScript + "</script>\n</body>\n</html>\n";
  return page;
}

}  // namespace comm::trace
