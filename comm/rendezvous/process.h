#pragma once

/// Processes of this host, watched by more than their sockets: a socket that a forked child still
/// holds does not close when the rank is killed, but a descriptor of the process itself ("pidfd",
/// Linux 5.3) becomes readable. Where the kernel has none the socket alone has to tell.

#include <string>

#include "comm/rendezvous/messages.h"
#include "comm/rendezvous/unique_fd.h"

namespace comm::detail {

ProcessId current_process();

/// Becomes readable when that process ends. Empty where it does not run beside `self`, is `self`, or
/// has ended already.
UniqueFd watch_process(const ProcessId& process, const ProcessId& self);

std::string host_name();

}  // namespace comm::detail
