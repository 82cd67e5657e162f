#pragma once

/// `Table` is where the ranks of one communicator meet. For a collective each lays down its `Call`
/// and waits; the last one runs all of them and wakes the others. A message between two ranks is
/// copied into a mailbox, so that a sender waits for nobody. The first failure stays on the table,
/// and every later call is refused with it, until all ranks have reconnected.
///
/// Thread safety: a thread a rank; one mutex, held while data is copied.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "comm/operations.h"
#include "comm/status.h"

namespace example {

class Table;

/// A place at a table; to be destroyed is to leave, and the others are told.
class Seat {
 public:
  Seat(std::shared_ptr<Table> table, int rank) : table_(std::move(table)), rank_(rank) {}
  ~Seat();
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;

  Table& table() const { return *table_; }
  int rank() const { return rank_; }

 private:
  std::shared_ptr<Table> table_;
  int rank_;
};

/// What one rank asks for, whichever operation it is: the fields that it does not have stay unset.
struct Call {
  comm::OperationInfo info;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t recv_count = 0;
  std::vector<std::size_t> send_counts = {};  ///< A copy: the caller's are gone after the call.
  std::vector<std::size_t> recv_counts = {};
  int source = -1;
  int color = 0;
  int key = 0;
  comm::Timeout timeout = {};

  std::unique_ptr<Seat>* new_seat = nullptr;  ///< Where split puts what it makes.
};

class Table : public std::enable_shared_from_this<Table> {
 public:
  Table(int size, std::chrono::nanoseconds timeout);

  int size() const { return size_; }
  std::uint64_t epoch() const;
  bool is_healthy() const;

  /// A collective: returns when all ranks have called and it is done.
  comm::Status meet(int rank, Call call);

  /// Half a message: neither is a collective.
  comm::Status post(int rank, const Call& call);
  comm::Status take(int rank, const Call& call, int source);

  /// The table of the ranks that stay; none of them waits for another here.
  std::unique_ptr<Seat> shrink(int rank, std::vector<int> excluded);

  comm::Status reconnect(int rank);
  void fail(comm::StatusCode code, const std::string& cause);
  void leave(int rank);

  /// "all_reduce: rank 1 of 4: " and so on.
  comm::Status error(comm::StatusCode code, comm::Operation operation, int rank,
                     const std::string& what) const;

 private:
  using Lock = std::unique_lock<std::mutex>;

  comm::Status refusal(comm::Operation operation, int rank) const;
  void fail_locked(comm::StatusCode code, const std::string& cause);
  /// The ranks that `is_missing` says are, in words.
  template <class F>
  std::string name(F is_missing) const;
  template <class F>
  bool wait(Lock& lock, comm::Timeout timeout, F until);
  bool has_left(const std::vector<bool>& present) const;
  void run_calls();
  void split_calls();

  const int size_;
  const std::chrono::nanoseconds timeout_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Call> calls_;
  std::vector<bool> has_arrived_;
  std::vector<bool> has_reconnected_;
  std::vector<bool> has_left_;
  int arrived_ = 0;
  std::uint64_t meetings_ = 0;  ///< Over so far.
  std::uint64_t epoch_ = 0;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> mail_;  ///< By from and to.
  std::map<std::vector<int>, std::pair<std::shared_ptr<Table>, int>> shrinking_;  ///< By excluded.
  comm::StatusCode failure_ = comm::StatusCode::ok;
  std::string cause_;
};

}  // namespace example
