#pragma once

/// The table under comm_trace's sentence: what each rank submitted around the collective that the
/// sentence is about, ranks that did the same in one line. At most 100 columns.

#include <string>

#include "comm/trace/analysis.h"
#include "comm/trace/view.h"

namespace comm::trace {

std::string table(const View& view, const Report& report);

}  // namespace comm::trace
