#pragma once

/// `Logged<B>` writes one line for each operation that is submitted to `B`, when the level of
/// `operations` was `trace` when it was made (COMM_DIAGNOSTICS=1 in the environment, COMM_LOG, or the
/// backend's `Config`), or when it was made with a sink:
///
///     comm: rank=1 world=4 epoch=0 seq=7 op=all_reduce type=bf16 count=4096 bytes=8192 reduce=sum
///         stream=own result=ok                                                  (all in one line)
///
///     comm::Communicator<comm::Logged<comm::Host>> c{comm::Logged(std::move(host), sink)};
///
/// The line is written when the operation returns, so it has the result. `seq` counts what this
/// communicator was given while its log was on, from 1. `count` and `bytes` are those of one rank's
/// contribution. Lines hold names and numbers, never data or addresses. Switched off it costs one
/// branch an operation; over a backend that moves no data it is nothing at all.
///
/// Threads: as the backend's. Only `abort` may come from another thread; its line has no `seq`.

#include <cstdint>
#include <type_traits>
#include <utility>

#include "comm/decorator.h"
#include "comm/log.h"

namespace comm {

namespace detail {

/// One operation with what the decorator knows of it.
struct LogEntry {
  OperationInfo info;
  int rank;
  int world_size;
  std::uint64_t epoch = 0;
  std::uint64_t sequence = 0;  ///< 0: none, and no epoch either.
  int source = -1;
  int color = kNoColor;
};

template <class Op>
constexpr LogEntry log_entry(const Op& op, int rank, int world_size) {
  LogEntry entry{info_of(op), rank, world_size};
  if constexpr (requires { op.source; }) entry.source = op.source;
  if constexpr (requires { op.color; }) entry.color = op.color;
  if constexpr (requires { op.send_counts; }) {
    for (int i = 0; i < world_size; ++i) entry.info.count += op.send_counts[i];
  }
  return entry;
}

/// `message` is read only where `code` is not ok.
[[gnu::cold]] void write_log_line(LogSink sink, const LogEntry& entry, StatusCode code,
                                  const char* message) noexcept;

class LogState {
 public:
  template <class B>
  static LogState of(const B& backend) {
    const LogSettings settings = log_settings_of(backend);
    LogState state(settings.sink);
    state.is_on_ = settings.levels.is_on(LogPart::operations, LogLevel::trace);
    state.is_given_ = false;
    return state;
  }
  explicit LogState(LogSink sink) : sink_(sink) {}

  bool is_on() const { return is_on_; }
  /// Whether the sink is the engine's rather than the backend's, which ends with the backend.
  bool is_given() const { return is_given_; }
  LogSink sink() const { return sink_; }
  std::uint64_t next() { return ++sequence_; }

 private:
  LogSink sink_;
  std::uint64_t sequence_ = 0;
  bool is_on_ = true;
  bool is_given_ = true;
};

/// Stands for the state where nothing is logged. One type for each `B`: two objects of one type would
/// need two addresses, and so a byte.
template <class B>
struct NoLogState {
  constexpr NoLogState() = default;
  constexpr explicit NoLogState(LogSink) {}
  static constexpr NoLogState of(const B&) { return {}; }
};

}  // namespace detail

template <Backend B>
class Logged : public Decorator<Logged<B>, B> {
  using Base = Decorator<Logged, B>;

 public:
  /// As the backend's log settings say, or else the environment; to where the backend logs.
  constexpr explicit Logged(B inner)
      : Base(std::move(inner)), state_(State::of(std::as_const(*this).inner())) {}
  /// On, to `sink`, which outlives this.
  constexpr Logged(B inner, LogSink sink) : Base(std::move(inner)), state_(sink) {}

  template <class Op, class Next>
  auto around(const Op& op, Next next) {
    if (!state_.is_on()) [[likely]]
      return next();
    auto outcome = next();
    detail::LogEntry entry = detail::log_entry(op, this->rank(), this->world_size());
    entry.epoch = this->epoch();
    entry.sequence = state_.next();
    detail::write_log_line(state_.sink(), entry, outcome.code(), outcome.message());
    return outcome;
  }

  constexpr Status abort(const ops::Abort& op) {
    Status outcome = this->inner().abort(op);
    if constexpr (B::moves_data) {
      if (state_.is_on()) {
        detail::write_log_line(state_.sink(),
                               detail::log_entry(op, this->rank(), this->world_size()),
                               outcome.code(), outcome.message());
      }
    }
    return outcome;
  }

  /// What was split off logs to the same place, counting from 1.
  constexpr Logged wrap(B inner) const {
    if constexpr (B::moves_data) {
      if (state_.is_given()) return Logged(std::move(inner), state_.sink());
    }
    return Logged(std::move(inner));
  }

 private:
  using State = std::conditional_t<B::moves_data, detail::LogState, detail::NoLogState<B>>;

  [[no_unique_address]] State state_;
};

template <class B>
Logged(B) -> Logged<B>;
template <class B>
Logged(B, LogSink) -> Logged<B>;

}  // namespace comm
