#pragma once

/// One backend's entry in `backends.h`: joins the world that the launcher made, and measures.

#include "bench/perf/measure.h"
#include "bench/perf/report.h"
#include "comm/communicator.h"

namespace comm::perf {

template <class B, class Memory>
Status run_backend(Run& run) {
  auto communicator = Communicator<B>::create();
  if (!communicator.ok()) return std::move(communicator).status();
  run.rank = communicator->rank();
  run.ranks = communicator->world_size();
  return measure<Memory>(*communicator, run);
}

}  // namespace comm::perf
