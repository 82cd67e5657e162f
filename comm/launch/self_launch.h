#pragma once

/// Starts this program again, as N ranks on this machine, and waits for them: what commrun does for
/// any program, a program does for itself, with a port that rank 0 inherits, a secret of the job's
/// own and the variables that say who each is (docs/rendezvous.md). For tools and demos that want no
/// launcher.
///
///     if (!comm::was_self_launched()) return *comm::launch_self(2, argv);
///     auto communicator = comm::Communicator<comm::Host>::create();
///
/// To be called before the program starts threads. Ranks die with the process that waits for them.

#include "comm/result.h"

namespace comm {

/// Whether `launch_self` started this process.
bool was_self_launched();

/// The exit status of the first rank that failed, which ends the others; 0 if none did. A rank that
/// a signal killed counts as 128 and the signal, as in a shell.
Result<int> launch_self(int ranks, char* const* argv);

}  // namespace comm
