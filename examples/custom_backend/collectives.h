#pragma once

/// What the last rank at the table does: the collective that all of them called.

#include <string>
#include <vector>

#include "examples/custom_backend/table.h"

namespace example {

/// How two of the calls disagree, in words; empty where all are of one collective.
std::string disagreement(const std::vector<Call>& calls);

/// Runs it. The calls agree; what they send may be what they receive into, as comm allows.
void run(const std::vector<Call>& calls);

}  // namespace example
