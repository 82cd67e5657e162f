#pragma once

/// `OutcomeTable` is what became of each operation and fault: the table of docs/reliability.md.

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "tests/health/faults.h"

namespace comm::test {

class OutcomeTable {
 public:
  void add(Kind kind, Trouble trouble, const std::string& what) {
    cells_[{kind, trouble}].insert(what);
  }
  /// One line for each entry, for the process that puts tables together.
  void write(std::FILE* file) const {
    for (const auto& [where, entries] : cells_)
      for (const std::string& what : entries)
        std::fprintf(file, "%d %d %s\n", static_cast<int>(where.first),
                     static_cast<int>(where.second), what.c_str());
  }
  /// Reads such lines; returns the number after them, which is how many cases were run.
  int read(std::FILE* file) {
    int kind = 0, trouble = 0;
    char what[64];
    while (std::fscanf(file, "%d %d %63s", &kind, &trouble, what) == 3)
      cells_[{static_cast<Kind>(kind), static_cast<Trouble>(trouble)}].insert(what);
    return kind;
  }
  static std::string heading() {
    std::string text = "| operation |";
    for (int t = 0; t < kTroubles; ++t)
      text += std::string(" ") + name_of(static_cast<Trouble>(t)) + " |";
    return text;
  }
  /// Whether the document has a row for each operation and a column for each fault.
  static bool is_in(const std::string& path) {
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::size_t at = text.find(heading() + "\n");
    std::size_t line = at == std::string::npos ? at : text.find('\n', text.find('\n', at) + 1);
    for (int k = 0; k < kKinds && line != std::string::npos; ++k) {
      const std::size_t next = text.find('\n', line + 1);
      const std::string row = text.substr(line + 1, next - line - 1);
      const auto bars = std::count(row.begin(), row.end(), '|');
      if (row.find(std::string("| `") + name_of(static_cast<Kind>(k)) + "` |") ==
              std::string::npos ||
          bars != kTroubles + 2)
        return false;
      line = next;
    }
    return line != std::string::npos;
  }
  void print() const {
    std::printf("%s", heading().c_str());
    std::printf("\n|---|");
    for (int t = 0; t < kTroubles; ++t) std::printf("---|");
    std::printf("\n");
    for (int k = 0; k < kKinds; ++k) {
      std::printf("| `%s` |", name_of(static_cast<Kind>(k)));
      for (int t = 0; t < kTroubles; ++t) {
        const auto cell = cells_.find({static_cast<Kind>(k), static_cast<Trouble>(t)});
        std::string text;
        if (cell != cells_.end())
          for (const std::string& what : cell->second) text += (text.empty() ? "" : ", ") + what;
        std::printf(" %s |", text.empty() ? "–" : text.c_str());
      }
      std::printf("\n");
    }
  }

 private:
  std::map<std::pair<Kind, Trouble>, std::set<std::string>> cells_;
};

}  // namespace comm::test
