#pragma once

/// The version that the simulation says it is: that of the header, or COMM_SIM_NCCL_VERSION.

namespace comm::simulated::detail {

int nccl_version();

}  // namespace comm::simulated::detail
