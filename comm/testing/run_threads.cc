#include "comm/testing/run_threads.h"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include "comm/testing/watchdog.h"

namespace comm::testing {

std::string test_name() {
  const auto* test = doctest::getContextOptions()->currentTest;
  if (test == nullptr) return "(no test case)";
  return std::string(test->m_name) + " <" + test->m_type.c_str() + ">";
}

void run_threads(int threads, const std::function<void(int)>& body) {
  Watchdog watchdog(test_name() + " on " + std::to_string(threads) + " ranks");
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) running.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : running) thread.join();
}

}  // namespace comm::testing
