#pragma once

/// The kernels of `sum.h`, run on the host by the same code: what a simulated CUDA runtime does
/// when one of them is launched. Keyed by the kernel's name; `run` takes the arguments as
/// `cudaLaunchKernel` does. One call does what the whole grid does.
///
///     for (const comm::kernels::HostKernel& kernel : comm::kernels::host_kernels())
///       simulation.register_kernel(kernel.name, kernel.run);

#include <span>

namespace comm::kernels {

struct HostKernel {
  const char* name;
  void (*run)(void** arguments);
};

std::span<const HostKernel> host_kernels() noexcept;

}  // namespace comm::kernels
