#pragma once

/// The timeline's style sheet and script, as they are in timeline.css and timeline.js; a build rule
/// makes the definitions.

namespace comm::trace {

extern const char kTimelineStyle[];
extern const char kTimelineScript[];

}  // namespace comm::trace
