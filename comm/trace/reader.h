#pragma once

/// Reads one dump, and trusts nothing in it: whatever the bytes are, the outcome is a `Dump` that
/// holds together or one error that names the file and where in it. Memory is bounded by the size of
/// the file, which is bounded by what a recorder can write.

#include <string>
#include <string_view>

#include "comm/result.h"
#include "comm/trace/dump.h"

namespace comm::trace {

Result<Dump> parse_dump(std::string_view text, const std::string& file);

Result<Dump> read_dump(const std::string& file);

}  // namespace comm::trace
