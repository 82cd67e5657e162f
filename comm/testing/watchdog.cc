#include "comm/testing/watchdog.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace comm::testing {
namespace {

std::chrono::milliseconds bound() {
  const char* text = std::getenv("TEST_TIMEOUT");
  const long seconds = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  return std::chrono::milliseconds(seconds > 0 ? seconds * 750 : 600'000);
}

}  // namespace

Watchdog::Watchdog(std::string guarded)
    : guarded_(std::move(guarded)), thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  over_.notify_one();
  thread_.join();
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  // The system's clock: waiting by the steady one is not known to every thread sanitizer.
  const auto end = std::chrono::system_clock::now() + bound();
  if (over_.wait_until(lock, end, [this] { return is_over_; })) return;
  std::fprintf(stderr, "watchdog: '%s' has not ended within %lld ms; it hangs\n", guarded_.c_str(),
               static_cast<long long>(bound().count()));
  std::fflush(stderr);
  std::abort();
}

}  // namespace comm::testing
