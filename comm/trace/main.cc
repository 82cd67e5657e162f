// comm_trace: merges the flight recorder dumps of ranks and says in one sentence what is wrong.

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/trace/analysis.h"
#include "comm/trace/html.h"
#include "comm/trace/reader.h"
#include "comm/trace/table.h"
#include "comm/trace/view.h"
#include "comm/trace/world.h"

namespace {

using namespace comm::trace;

constexpr int kNothingWrong = 0;
constexpr int kProblem = 1;
constexpr int kBadInput = 2;

constexpr const char* kUsage =
    "usage: comm_trace [--html FILE] [--patience SECONDS] DUMP...\n"
    "\n"
    "Merges the dumps of flight recorders (comm::Recorded), one or more a rank, in any order, and\n"
    "says in one sentence which rank missed, mismatched or lags which collective; then the table\n"
    "around it.\n"
    "\n"
    "  --html FILE         also write a timeline to look at with a browser\n"
    "  --patience SECONDS  a wait that lasts longer is trouble, where nothing has failed (1)\n"
    "\n"
    "exit status: 0 nothing wrong found, 1 a problem found, 2 bad input\n";

struct Arguments {
  std::vector<std::string> files;
  std::string html;
  double patience = 1;
};

/// False with the reason on stderr.
bool parse(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--html" || word == "--patience") {
      if (++i == argc)
        return std::fprintf(stderr, "comm_trace: %s needs a value\n", word.c_str()), false;
      if (word == "--html") {
        arguments.html = argv[i];
        continue;
      }
      char* end = nullptr;
      arguments.patience = std::strtod(argv[i], &end);
      if (end == argv[i] || *end != '\0' || !(arguments.patience >= 0 && arguments.patience < 1e9))
        return std::fprintf(stderr, "comm_trace: --patience %s: no number of seconds\n", argv[i]),
               false;
    } else if (word.size() > 1 && word[0] == '-') {
      return std::fprintf(stderr, "comm_trace: unknown option %s\n%s", word.c_str(), kUsage), false;
    } else {
      arguments.files.push_back(word);
    }
  }
  if (!arguments.files.empty()) return true;
  return std::fprintf(stderr, "comm_trace: no dumps given\n%s", kUsage), false;
}

/// A communicator with what was found of it.
struct Judged {
  const World* world;
  View view;
  Report report;
};

std::vector<Judged> judge(const std::vector<World>& worlds, std::int64_t patience_ns) {
  std::vector<Judged> all;
  all.reserve(worlds.size());
  for (const World& world : worlds) {
    View view(world, patience_ns);
    Report report = analyse(view);
    all.push_back({&world, std::move(view), std::move(report)});
  }
  return all;
}

/// The one whose first finding is told first.
const Judged& worst_of(const std::vector<Judged>& all) {
  const Judged* worst = &all.front();
  for (const Judged& one : all) {
    if (one.report.findings.empty()) continue;
    if (worst->report.findings.empty() ||
        one.report.findings.front().kind < worst->report.findings.front().kind)
      worst = &one;
  }
  return *worst;
}

std::string with_name(const Judged& one, bool is_only, const std::string& sentence) {
  return is_only ? sentence : "in " + one.world->name + ", " + sentence;
}

void print(const std::vector<Judged>& all, const Judged& worst) {
  const bool is_only = all.size() == 1;
  const bool is_fine = worst.report.findings.empty();
  std::printf("%s\n",
              with_name(worst, is_only,
                        is_fine ? worst.report.otherwise : worst.report.findings.front().sentence)
                  .c_str());
  if (!worst.report.first_failure.empty())
    std::printf("first failure: %s\n", worst.report.first_failure.c_str());
  constexpr std::size_t kMostMore = 20;
  std::size_t more = 0;
  for (const Judged& one : all) {
    for (std::size_t i = &one == &worst ? 1 : 0; i < one.report.findings.size(); ++i)
      if (++more <= kMostMore)
        std::printf("also: %s\n", with_name(one, is_only, one.report.findings[i].sentence).c_str());
    for (const std::string& note : one.world->notes) std::printf("note: %s\n", note.c_str());
  }
  if (more > kMostMore) std::printf("also: %zu more\n", more - kMostMore);
  const std::string lines = table(worst.view, worst.report);
  if (!lines.empty()) std::printf("\n%s", lines.c_str());
}

bool write_file(const std::string& path, const std::string& text) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "we"),
                                                             std::fclose);
  if (file != nullptr && std::fwrite(text.data(), 1, text.size(), file.get()) == text.size() &&
      std::fflush(file.get()) == 0)
    return true;
  std::fprintf(stderr, "comm_trace: %s: cannot be written: %s\n", path.c_str(),
               std::strerror(errno));
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--help") == 0) return std::fputs(kUsage, stdout), 0;
  Arguments arguments;
  if (!parse(argc, argv, arguments)) return kBadInput;
  std::vector<Dump> dumps;
  dumps.reserve(arguments.files.size());
  for (const std::string& file : arguments.files) {
    comm::Result<Dump> dump = read_dump(file);
    if (!dump.ok()) {
      std::fprintf(stderr, "comm_trace: %s\n", dump.message());
      return kBadInput;
    }
    dumps.push_back(std::move(*dump));
  }
  const std::vector<World> worlds = sort_into_worlds(std::move(dumps));
  const std::vector<Judged> all =
      judge(worlds, static_cast<std::int64_t>(arguments.patience * 1e9));
  const Judged& worst = worst_of(all);
  print(all, worst);
  if (!arguments.html.empty() && !write_file(arguments.html, html(worst.view, worst.report)))
    return kBadInput;
  return worst.report.findings.empty() ? kNothingWrong : kProblem;
}
