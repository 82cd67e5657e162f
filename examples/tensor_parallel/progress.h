#pragma once

/// Says on stderr how far a run is: on a terminal one line that moves, elsewhere a line at each
/// quarter, so that a log stays short.

#include <chrono>
#include <cstddef>
#include <string>

namespace example {

class Progress {
 public:
  /// Quiet where `shown` is false: one rank of many speaks.
  Progress(std::string what, std::size_t whole, bool shown);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void reached(std::size_t done);

 private:
  std::string what_;
  std::size_t whole_;
  bool shown_;
  bool on_terminal_;
  std::size_t quarters_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace example
