#include "examples/custom_backend/table.h"

#include <algorithm>
#include <cstring>

#include "examples/custom_backend/collectives.h"

namespace example {

using comm::Operation;
using comm::Status;
using comm::StatusCode;

Seat::~Seat() {
  table_->leave(rank_);
}

Table::Table(int size, std::chrono::nanoseconds timeout)
    : size_(size),
      timeout_(timeout),
      calls_(static_cast<std::size_t>(size)),
      has_arrived_(static_cast<std::size_t>(size)),
      has_reconnected_(static_cast<std::size_t>(size)),
      has_left_(static_cast<std::size_t>(size)) {}

std::uint64_t Table::epoch() const {
  Lock lock(mutex_);
  return epoch_;
}

bool Table::is_healthy() const {
  Lock lock(mutex_);
  return failure_ == StatusCode::ok;
}

Status Table::error(StatusCode code, Operation operation, int rank, const std::string& what) const {
  return comm::make_error(code, 0, "%s: rank %d of %d: %s", to_string(operation), rank, size_,
                          what.c_str());
}

Status Table::refusal(Operation operation, int rank) const {
  return error(
      StatusCode::unhealthy, operation, rank,
      "refused since an earlier failure (" + cause_ + "); call attempt_reconnect on every rank");
}

void Table::fail_locked(StatusCode code, const std::string& cause) {
  if (failure_ != StatusCode::ok) return;
  failure_ = code;
  cause_ = cause;
  changed_.notify_all();
}

void Table::fail(StatusCode code, const std::string& cause) {
  Lock lock(mutex_);
  fail_locked(code, cause);
}

void Table::leave(int rank) {
  Lock lock(mutex_);
  has_left_[static_cast<std::size_t>(rank)] = true;
  changed_.notify_all();
}

template <class F>
std::string Table::name(F is_missing) const {
  std::string names;
  for (int r = 0; r < size_; ++r) {
    if (is_missing(static_cast<std::size_t>(r))) {
      names += (names.empty() ? "rank " : ", rank ") + std::to_string(r);
    }
  }
  return names;
}

template <class F>
bool Table::wait(Lock& lock, comm::Timeout timeout, F until) {
  if (timeout.is_never()) {
    changed_.wait(lock, until);
    return true;
  }
  const std::chrono::nanoseconds bound(timeout.nanoseconds_or(timeout_.count()));
  return changed_.wait_for(lock, bound, until);
}

bool Table::has_left(const std::vector<bool>& present) const {
  for (std::size_t r = 0; r < present.size(); ++r) {
    if (has_left_[r] && !present[r]) return true;
  }
  return false;
}

Status Table::meet(int rank, Call call) {
  Lock lock(mutex_);
  const Operation operation = call.info.operation;
  const comm::Timeout timeout = call.timeout;
  if (failure_ != StatusCode::ok) return refusal(operation, rank);
  const auto own = static_cast<std::size_t>(rank);
  calls_[own] = std::move(call);
  has_arrived_[own] = true;
  if (++arrived_ == size_) {
    run_calls();
  } else {
    const std::uint64_t meeting = meetings_;
    auto is_over = [&] { return meetings_ != meeting || failure_ != StatusCode::ok; };
    const bool in_time = wait(lock, timeout, [&] { return is_over() || has_left(has_arrived_); });
    if (!is_over()) {
      const std::string missing =
          name([&](std::size_t r) { return !has_arrived_[r] && (!in_time || has_left_[r]); });
      fail_locked(in_time ? StatusCode::peer_lost : StatusCode::timeout,
                  std::string(to_string(operation)) + ": rank " + std::to_string(rank) +
                      " waited for " + missing + (in_time ? ", which has left" : " in vain"));
    }
    if (meetings_ != meeting) return {};  // It was done, whatever came after.
  }
  return failure_ == StatusCode::ok ? Status() : error(failure_, operation, rank, cause_);
}

void Table::run_calls() {
  const std::string difference = disagreement(calls_);
  if (!difference.empty()) return fail_locked(StatusCode::mismatch, difference);
  if (calls_[0].info.operation == Operation::split) {
    split_calls();
  } else {
    run(calls_);
  }
  arrived_ = 0;
  has_arrived_.assign(has_arrived_.size(), false);
  ++meetings_;
  changed_.notify_all();
}

void Table::split_calls() {
  for (const Call& first : calls_) {
    if (first.color == comm::kNoColor || *first.new_seat != nullptr) continue;
    std::vector<const Call*> members;
    for (const Call& call : calls_) {
      if (call.color == first.color) members.push_back(&call);
    }
    std::stable_sort(members.begin(), members.end(),
                     [](const Call* a, const Call* b) { return a->key < b->key; });
    auto table = std::make_shared<Table>(static_cast<int>(members.size()), timeout_);
    int rank = 0;
    for (const Call* member : members) {
      *member->new_seat = std::make_unique<Seat>(table, rank++);
    }
  }
}

Status Table::post(int rank, const Call& call) {
  Lock lock(mutex_);
  if (failure_ != StatusCode::ok) return refusal(call.info.operation, rank);
  const auto* data = static_cast<const std::byte*>(call.send);
  const std::size_t bytes = call.info.count * size_of(call.info.type);
  mail_[{rank, call.info.peer}].emplace_back(data, data + bytes);
  changed_.notify_all();
  return {};
}

Status Table::take(int rank, const Call& call, int source) {
  Lock lock(mutex_);
  const Operation operation = call.info.operation;
  if (failure_ != StatusCode::ok) return refusal(operation, rank);
  auto& box = mail_[{source, rank}];
  auto is_over = [&] { return !box.empty() || failure_ != StatusCode::ok; };
  const auto from = static_cast<std::size_t>(source);
  const bool in_time = wait(lock, {}, [&] { return is_over() || has_left_[from]; });
  const std::string who = std::string(to_string(operation)) + ": rank " + std::to_string(rank);
  if (!is_over()) {
    fail_locked(in_time ? StatusCode::peer_lost : StatusCode::timeout,
                who + " waited for rank " + std::to_string(source) +
                    (in_time ? ", which has left" : " in vain"));
  }
  if (box.empty()) return error(failure_, operation, rank, cause_);
  const std::vector<std::byte> message = std::move(box.front());
  box.pop_front();
  const std::size_t bytes = call.recv_count * size_of(call.info.type);
  if (message.size() != bytes) {
    fail_locked(StatusCode::mismatch, who + " expects " + std::to_string(bytes) +
                                          " bytes from rank " + std::to_string(source) +
                                          ", which sent " + std::to_string(message.size()));
    return error(failure_, operation, rank, cause_);
  }
  if (bytes != 0) std::memcpy(call.recv, message.data(), bytes);
  return {};
}

std::unique_ptr<Seat> Table::shrink(int rank, std::vector<int> excluded) {
  Lock lock(mutex_);
  std::sort(excluded.begin(), excluded.end());
  excluded.erase(std::unique(excluded.begin(), excluded.end()), excluded.end());
  const int stay = size_ - static_cast<int>(excluded.size());
  auto& [table, joined] = shrinking_[excluded];
  if (table == nullptr) table = std::make_shared<Table>(stay, timeout_);
  const auto below = std::lower_bound(excluded.begin(), excluded.end(), rank) - excluded.begin();
  auto seat = std::make_unique<Seat>(table, rank - static_cast<int>(below));
  if (++joined == stay) shrinking_.erase(excluded);
  return seat;
}

Status Table::reconnect(int rank) {
  Lock lock(mutex_);
  const std::uint64_t before = epoch_;
  has_reconnected_[static_cast<std::size_t>(rank)] = true;
  // What was under way ends now; whoever was in it has to come here next.
  fail_locked(StatusCode::peer_lost, "rank " + std::to_string(rank) + " reconnects");
  auto all = [&] {
    return std::all_of(has_reconnected_.begin(), has_reconnected_.end(), [](bool b) { return b; });
  };
  if (all()) {
    failure_ = StatusCode::ok;
    cause_.clear();
    mail_.clear();
    arrived_ = 0;
    has_arrived_.assign(has_arrived_.size(), false);
    has_reconnected_.assign(has_reconnected_.size(), false);
    ++epoch_;
    changed_.notify_all();
    return {};
  }
  changed_.notify_all();
  wait(lock, {}, [&] { return epoch_ != before || has_left(has_reconnected_); });
  if (epoch_ != before) return {};
  const std::string missing = name([&](std::size_t r) { return !has_reconnected_[r]; });
  has_reconnected_[static_cast<std::size_t>(rank)] = false;
  return error(StatusCode::timeout, Operation::attempt_reconnect, rank,
               missing + " did not come; call it again on every rank");
}

}  // namespace example
