#pragma once

/// Each NCCL function exists a second time with a leading p, for profilers; here too.

#define COMM_SIM_PROFILER_ALIAS(function) \
  extern "C" decltype(function) p##function __attribute__((alias(#function)))
