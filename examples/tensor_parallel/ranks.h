#pragma once

/// Starts this program again, as N ranks on this machine, and waits for them. What commrun does for
/// any program, a program can do for itself: a listener that rank 0 inherits, and a few variables
/// that say who each is (docs/rendezvous.md).

#include "comm/result.h"

namespace example {

/// The exit status of the first rank that failed, which ends the others; 0 if none did. A rank that
/// a signal killed counts as 128 and the signal, as in a shell.
comm::Result<int> run_as_ranks(int ranks, char* const* argv);

}  // namespace example
