#pragma once

/// The timeline: one HTML document with all that it needs inside, for any browser, also without a
/// network. A lane for each rank, the operations of the sentence marked, tooltips, zoom and pan by
/// mouse, touch and keyboard, in the reader's light or dark. Of many entries the ones around the
/// sentence are shown, and the page says so.

#include <string>

#include "comm/trace/analysis.h"
#include "comm/trace/view.h"

namespace comm::trace {

std::string html(const View& view, const Report& report);

}  // namespace comm::trace
