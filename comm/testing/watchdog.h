#pragma once

/// `Watchdog` ends the process, by name, when what it guards takes too long: a test that hangs says
/// which one it was, and leaves no process behind. It is destroyed when the guarded part is over.
///
///     comm::testing::Watchdog watchdog("all_gather on 3 ranks");
///
/// The bound is three quarters of Bazel's (TEST_TIMEOUT), or 10 minutes. One thread, asleep.

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "comm/language.h"

namespace comm::testing {

class Watchdog {
 public:
  explicit Watchdog(std::string guarded);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

 private:
  void watch();

  std::string guarded_;
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace comm::testing
