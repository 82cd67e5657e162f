#pragma once

/// Where comm's log lines go. A `LogSink` is a function and what it is called with; the default one
/// writes to stderr, each line by one system call, so that lines of several ranks on one terminal do
/// not mix. It owns nothing and is as small as two pointers.
///
///     auto to_file = [](void* file, const char* line) { std::fputs(line, static_cast<FILE*>(file)); };
///     comm::LogSink sink(to_file, file);
///
/// Thread safety: a sink may be called from several threads, and so must its function.

namespace comm {

class LogSink {
 public:
  /// Gets one line with its newline; the text is gone after the call. Must not throw.
  using Function = void (*)(void* context, const char* line);

  /// Writes to stderr.
  constexpr LogSink() = default;
  constexpr LogSink(Function function, void* context) : function_(function), context_(context) {}

  void operator()(const char* line) const noexcept;

 private:
  Function function_ = nullptr;
  void* context_ = nullptr;
};

/// Whether the environment has COMM_DIAGNOSTICS=1. Read anew at each call.
bool diagnostics_are_on() noexcept;

}  // namespace comm
