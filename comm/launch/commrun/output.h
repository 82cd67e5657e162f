#pragma once

/// What ranks print, line by line, behind the rank that printed it. A line comes out whole, or, where
/// the rank ended in the middle of it, as far as it got. Nothing here blocks: what the terminal or
/// pipe does not take yet waits in memory, and while much waits the ranks are not read.

#include <cstddef>
#include <string>
#include <string_view>

namespace comm::commrun {

/// One of commrun's own two outputs.
class Sink {
 public:
  explicit Sink(int fd) : fd_(fd) {}

  void write(std::string_view text) { waiting_ += text; }

  int fd() const { return fd_; }
  bool has_waiting() const { return offset_ < waiting_.size(); }
  bool is_full() const { return waiting_.size() - offset_ > kMost; }
  bool is_broken() const { return broken_; }

  /// To be called when the descriptor is writable.
  void flush_some();

 private:
  static constexpr std::size_t kMost = 1024 * 1024;
  // A pipe that is writable at all takes this much without blocking (PIPE_BUF).
  static constexpr std::size_t kAtOnce = 4096;

  int fd_;
  bool broken_ = false;
  std::size_t offset_ = 0;
  std::string waiting_;
};

/// One output of one rank.
class LineReader {
 public:
  LineReader(int rank, Sink& sink) : prefix_("[" + std::to_string(rank) + "] "), sink_(&sink) {}

  void append(std::string_view text);
  void finish();

  bool is_paused() const { return sink_->is_full(); }

 private:
  static constexpr std::size_t kLongest = 1024 * 1024;

  std::string prefix_;
  std::string line_;
  Sink* sink_;
};

}  // namespace comm::commrun
