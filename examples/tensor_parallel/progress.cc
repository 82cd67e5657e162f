#include "examples/tensor_parallel/progress.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

namespace example {

Progress::Progress(std::string what, std::size_t whole, bool shown)
    : what_(std::move(what)), whole_(whole), shown_(shown), on_terminal_(isatty(2) == 1) {}

Progress::~Progress() {
  if (shown_ && on_terminal_) std::fprintf(stderr, "\r\033[K");
}

void Progress::reached(std::size_t done) {
  if (!shown_ || whole_ == 0) return;
  const std::size_t quarters = done * 4 / whole_;
  if (!on_terminal_ && quarters == quarters_) return;
  quarters_ = quarters;
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  std::fprintf(stderr, "%s%s: %zu of %zu positions, %.0f a second%s", on_terminal_ ? "\r" : "",
               what_.c_str(), done, whole_, static_cast<double>(done) / seconds,
               on_terminal_ ? "\033[K" : "\n");
}

}  // namespace example
