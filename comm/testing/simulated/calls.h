#pragma once

/// How often each simulated function was called in this process, by its name: for tests that say
/// "exactly one abort", or "never a blocking synchronise". Thread-safe.
///
///     CHECK(comm::simulated::calls("cudaStreamSynchronize") == 0);

#include <string_view>

#include "comm/language.h"

namespace comm::simulated {

int calls(std::string_view function);
void clear_calls();

namespace detail {

void count_call(const char* function);

}  // namespace detail
}  // namespace comm::simulated
