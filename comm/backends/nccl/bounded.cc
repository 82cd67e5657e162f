#include "comm/backends/nccl/bounded.h"

#include <pthread.h>

#include <condition_variable>
#include <mutex>
#include <new>
#include <utility>

#include "comm/backends/nccl/waiting.h"

namespace comm::detail::nccl {
namespace {

extern "C" void* comm_nccl_thread_main(void* body) {
  const std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(body));
  (*owned)();
  return nullptr;
}

struct Completion {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
};

}  // namespace

Status Thread::start(std::function<void()> body) {
  auto owned = std::make_unique<std::function<void()>>(std::move(body));
  pthread_t handle{};
  const int error = ::pthread_create(&handle, nullptr, comm_nccl_thread_main, owned.get());
  if (error != 0)
    return make_error(StatusCode::internal, error,
                      "a thread could not be started (errno %d); raise the limit on processes",
                      error);
  (void)owned.release();  // The thread's now.
  handle_ = handle;
  running_ = true;
  return {};
}

void Thread::join() noexcept {
  if (!std::exchange(running_, false)) return;
  if (::pthread_equal(handle_, ::pthread_self()) != 0) {
    ::pthread_detach(handle_);
  } else {
    ::pthread_join(handle_, nullptr);
  }
}

void Thread::detach() noexcept {
  if (std::exchange(running_, false)) ::pthread_detach(handle_);
}

bool Thread::is_current() const noexcept {
  return running_ && ::pthread_equal(handle_, ::pthread_self()) != 0;
}

void TimedMutex::lock() {
  std::unique_lock<std::mutex> guard(mutex_);
  free_.wait(guard, [this] { return !is_locked_; });
  is_locked_ = true;
}

bool TimedMutex::try_lock() {
  const std::lock_guard<std::mutex> guard(mutex_);
  return !std::exchange(is_locked_, true);
}

bool TimedMutex::try_lock_until(std::chrono::steady_clock::time_point when) {
  std::unique_lock<std::mutex> guard(mutex_);
  if (!free_.wait_until(guard, when, [this] { return !is_locked_; })) return false;
  is_locked_ = true;
  return true;
}

void TimedMutex::unlock() {
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    is_locked_ = false;
  }
  free_.notify_one();
}

Bounded run_bounded(const Deadline& deadline, std::function<void()> call) {
  auto completion = std::make_shared<Completion>();
  Thread thread;
  Status started = thread.start([completion, call = std::move(call)] {
    call();
    const std::lock_guard<std::mutex> lock(completion->mutex);
    completion->done = true;
    completion->changed.notify_all();
  });
  if (!started.ok()) return Bounded::not_started;
  {
    std::unique_lock<std::mutex> lock(completion->mutex);
    const auto is_done = [&] { return completion->done; };
    if (completion->changed.wait_until(lock, deadline.when(), is_done)) {
      lock.unlock();
      thread.join();
      return Bounded::finished;
    }
  }
  thread.detach();
  return Bounded::overdue;
}

}  // namespace comm::detail::nccl
