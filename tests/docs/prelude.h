#pragma once

/// What the fragments in the documents take as given.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/backends/host.h"
#include "comm/comm.h"
#include "comm/decorators/faulty.h"
#include "comm/decorators/logged.h"
#include "comm/float_types.h"
#if __has_include("comm/backends/nccl.h")
#include "comm/backends/nccl.h"
#endif

#define SNIPPET_NAMES                                                                             \
  [[maybe_unused]] comm::DefaultCommunicator &communicator, [[maybe_unused]] comm::Stream stream, \
      [[maybe_unused]] comm::Stream compute, [[maybe_unused]] float *gradients,                   \
      [[maybe_unused]] std::size_t count, [[maybe_unused]] comm::DeviceSpan<float> activations,   \
      [[maybe_unused]] comm::DeviceSpan<float> send,                                              \
      [[maybe_unused]] comm::DeviceSpan<float> recv,                                              \
      [[maybe_unused]] comm::DeviceSpan<std::uint32_t> command, [[maybe_unused]] int next,        \
      [[maybe_unused]] int previous
