#pragma once

/// From a ring to a JSON document, and from there to a file or a sink. The document's form is in
/// docs/flight-recorder.md; a change of meaning needs a new `kDumpVersion`.
///
/// Thread safety: any thread. None of this is for signal handlers: it allocates.

#include <string>

#include "comm/health/flight_recorder.h"
#include "comm/health/recorder_ring.h"
#include "comm/status.h"

namespace comm::detail {

inline constexpr int kDumpVersion = 1;

std::string recorder_json(const RecorderRing& ring, DumpReason reason);

Status write_dump(const RecorderRing& ring, const std::string& path, DumpReason reason);

/// To the sink or the directory of the options.
Status deliver_dump(const RecorderRing& ring, DumpReason reason);
bool has_destination(const RecorderRing& ring);

/// As `deliver_dump` where there is a destination; says so once, on stderr, when it does not work.
void dump_after_failure(const RecorderRing& ring) noexcept;

}  // namespace comm::detail
