#pragma once

/// What the simulation saw that real CUDA or NCCL would answer with a hang, a crash or wrong data.
/// A report is printed on stderr when it arises and kept for the test to read; the callback, if one
/// is set, gets it too (on the thread that saw it; it must not call CUDA or NCCL).
///
///     CHECK(comm::simulated::reports().empty());
///
/// Thread-safe. Costs nothing until there is something to report.

#include <functional>
#include <string>
#include <vector>

#include "comm/language.h"

namespace comm::simulated {

enum class Violation {
  mismatch,          // ranks disagree in operation, count, type, reduction, root or order
  unordered_access,  // a buffer reused on another stream with no event between
  freed_in_flight,   // memory freed while submitted work uses it
  bad_pointer,       // out of range, freed, misaligned, or not device memory
  group_depth,       // ncclGroupEnd without start, or a group never closed
  stale_handle,      // use after destroy, abort or free; double destroy
  bad_usage,         // what NCCL or CUDA document as forbidden but do not check
  leak,              // alive at exit
};

const char* name_of(Violation violation);

struct Report {
  Violation violation;
  std::string text;  // ranks, sequence numbers and both sides
};

std::vector<Report> reports();

/// Those of one kind.
std::vector<Report> reports(Violation violation);

/// Returns what was kept and forgets it.
std::vector<Report> take_reports();

void set_report_callback(std::function<void(const Report&)> callback);

/// Reports each communicator, stream, event, graph, registration, window and allocation that is
/// alive, and returns how many. Called by itself when the process exits.
int report_leaks();

namespace detail {

[[gnu::format(printf, 2, 3)]] void report(Violation violation, const char* format, ...);

}  // namespace detail
}  // namespace comm::simulated
