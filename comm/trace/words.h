#pragma once

/// How comm_trace says things: operations, ranks, times.

#include <cstdint>
#include <string>
#include <vector>

#include "comm/trace/dump.h"

namespace comm::trace {

/// "all_reduce (bf16 x 4096, sum)".
std::string describe(const Entry& entry);

/// How far it came: "complete", "started and not returned", "failed (timeout)", ...
std::string describe_state(const Entry& entry);

/// "rank 2", "ranks 0, 2-5": `ranks` are in order. Says no more than a sentence can bear.
std::string name_ranks(const std::vector<int>& ranks);
/// The same without the word: "0, 2-5".
std::string list_ranks(const std::vector<int>& ranks);

/// "1.2 ms", "3.4 s".
std::string duration(std::int64_t nanoseconds);

/// The time of day in UTC, to the microsecond.
std::string time_of_day(std::int64_t unix_ns);

}  // namespace comm::trace
