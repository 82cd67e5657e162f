#pragma once

/// `run_threads(n, body)` runs `body(i)` on n threads at once and returns when all have ended. A
/// watchdog that carries the name of the running doctest case ends the process if they hang.
///
/// Assertions inside may be CHECKs; a REQUIRE would throw in a thread that nobody catches for.

#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

#include "comm/testing/watchdog.h"

namespace comm::testing {

/// The running doctest case.
inline std::string test_name() {
  const auto* test = doctest::getContextOptions()->currentTest;
  if (test == nullptr) return "(no test case)";
  return std::string(test->m_name) + " <" + test->m_type.c_str() + ">";
}

/// "ok", or the code and the message: for `CHECK(outcome(c.barrier()) == "ok")`.
template <class StatusOrResult>
std::string outcome(const StatusOrResult& s) {
  if (s.ok()) return "ok";
  return std::string(to_string(s.code())) + ": " + s.message();
}

template <class Body>
void run_threads(int threads, Body body) {
  Watchdog watchdog(test_name() + " on " + std::to_string(threads) + " ranks");
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) running.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : running) thread.join();
}

}  // namespace comm::testing
