#pragma once

/// `run_bounded` makes a call that may never return, on a thread of its own, and waits for it until
/// a deadline. If the deadline passes the thread is left to itself: it owns what it uses, so nothing
/// dangles. For init, split, finalize, destroy and abort; never on the way of an operation.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "comm/status.h"

namespace comm::detail::nccl {

class Deadline;

/// A thread that can fail to start without an exception. Joins on destruction unless detached.
class Thread {
 public:
  Thread() = default;
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;
  ~Thread() { join(); }

  Status start(std::function<void()> body);
  void join() noexcept;
  void detach() noexcept;
  bool is_running() const noexcept { return running_; }
  bool is_current() const noexcept;

 private:
  unsigned long handle_ = 0;
  bool running_ = false;
};

/// A mutex that is waited for until a deadline. Not `std::timed_mutex`, into which ThreadSanitizer of
/// g++ 12 cannot see.
class TimedMutex {
 public:
  void lock();
  bool try_lock();
  bool try_lock_until(std::chrono::steady_clock::time_point when);
  void unlock();

 private:
  std::mutex mutex_;
  std::condition_variable free_;
  bool is_locked_ = false;
};

/// How it went: finished, or not by the deadline, or no thread could be had.
enum class Bounded { finished, overdue, not_started };

Bounded run_bounded(const Deadline& deadline, std::function<void()> call);

}  // namespace comm::detail::nccl
