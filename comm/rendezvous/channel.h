#pragma once

/// A rank's end of the connection to rank 0's service once an epoch has started: exchanges, and the
/// news of who was lost. It has no thread: news is read when somebody calls, and while several
/// threads wait for the end of their exchanges, one of them reads for all. Thread-safe; exchanges of
/// all ranks run one at a time, and `check` never waits for one.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "comm/rendezvous/connector.h"
#include "comm/rendezvous/exchanges.h"
#include "comm/status.h"

namespace comm::detail {

class Channel {
 public:
  Channel(int rank, int world_size, const ProcessId& self, Joined joined);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// The outcome's payload (see `Outcome`), or why there is none.
  Result<ByteVector> exchange(ExchangeKind kind, int root, ByteSpan payload, Milliseconds timeout);

  /// `despite_failures`: the ranks that take part go on although others were lost.
  Result<ByteVector> gather_among(const Among& ranks, bool despite_failures, Milliseconds timeout);

  Status check();
  int lost_rank() const { return lost_.load(std::memory_order_relaxed); }
  int departed_rank() const { return departed_.load(std::memory_order_relaxed); }
  Departed departure() const;
  std::uint64_t called() const { return called_.load(std::memory_order_relaxed); }

  void notify(std::string_view text);
  void call(std::uint64_t number);

  /// Says goodbye and waits, but not long, until that has arrived. Nothing works after it.
  void leave(std::uint64_t done);

  /// Ends without goodbye and hands out the connection. For rank 0, which keeps it to rejoin.
  Joined release();

  const Start& start() const { return start_; }

 private:
  void read_news();  // With `mutex_` held.
  void on_frame(const Frame& frame);
  void fail(Status status, int lost_rank);
  void connection_ended(const std::string& how);
  void connection_failed(int errno_value);
  Status failure() const;
  /// One exchange under way; it lies with the thread that waits for its end.
  struct Waiting {
    std::string what;
    Deadline deadline;
    bool despite_failures = false;
    std::optional<ByteVector> outcome = {};
    OutcomeCode code{};
    bool failed_before = false;  ///< The channel, when the outcome came.
  };

  Result<ByteVector> run(Waiting& waiting, Contribution contribution, Milliseconds timeout,
                         std::uint64_t& next_sequence, std::unique_lock<std::mutex>& lock);
  Status refusal(const Waiting& waiting) const;
  Result<ByteVector> take_outcome(Waiting& waiting);
  Result<ByteVector> await_outcome(Waiting& waiting, std::unique_lock<std::mutex>& lock);
  bool send(ByteSpan frame, Deadline deadline);
  std::string describe(ExchangeKind kind) const;

  const int rank_;
  const int world_size_;
  const Start start_;

  std::mutex send_mutex_;  ///< Held for a whole frame; never taken after `mutex_` for long.
  mutable std::mutex mutex_;
  std::condition_variable changed_;  ///< One of the next three, or an outcome.
  bool is_exchanging_ = false;       ///< An exchange of all ranks is under way.
  bool is_sending_ = false;          ///< Contributions leave in the order of their numbers.
  bool is_reading_ = false;          ///< A thread that waits does the reading.
  std::map<std::uint64_t, Waiting*> waiting_;  ///< By sequence number.
  bool root_left_ = false;
  std::atomic<int> send_error_{0};  ///< A silence: who meets it first is the only one that is told.
  bool ended_ = false;              ///< The connection is of no more use.
  std::string why_ended_ = "this rank has left";
  UniqueFd fd_;
  UniqueFd root_process_;
  FrameReader reader_;
  Status failure_;
  std::uint64_t next_sequence_ = 0;
  std::uint64_t next_among_ = Among::kSequenceBit;
  std::atomic<int> lost_{-1};
  std::atomic<int> departed_{-1};
  std::atomic<std::uint64_t> called_{0};
  Departed departure_;  ///< Of those told of, the one with the least done.
};

}  // namespace comm::detail
