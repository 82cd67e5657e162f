#pragma once

/// `run_threads(n, body)` runs `body(i)` on n threads at once and returns when all have ended. A
/// watchdog that carries the name of the running doctest case ends the process if they hang.
///
/// Assertions inside may be CHECKs; a REQUIRE would throw in a thread that nobody catches for.

#include <functional>
#include <string>

#include "comm/language.h"

namespace comm::testing {

/// The running doctest case.
std::string test_name();

void run_threads(int threads, const std::function<void(int)>& body);

}  // namespace comm::testing
