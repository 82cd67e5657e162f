#pragma once

/// What happens when the process ends: leaks are reported, the seed is printed when the status is
/// not 0, and the driver is gone for whatever static destructors still call.

namespace comm::simulated::detail {

/// Called by every entry; the first call arranges the rest.
void watch_exit();

/// Counted by report_leaks beside the CUDA objects; NCCL's part of the simulation sets it.
void set_leak_reporter(int (*reporter)());

}  // namespace comm::simulated::detail
