#pragma once

/// What split and shrink have in common: a communicator over some of a parent's ranks.

#include "comm/backends/nccl/state.h"

namespace comm::detail::nccl {

/// What a part has of its parent, before NCCL has made it. `id` is the same on its ranks.
std::shared_ptr<State> part_of(const State& parent, std::uint64_t id);

/// `done` so far; with that, everything that NCCL does not make.
Result<std::shared_ptr<State>> finish(std::shared_ptr<State> part, Status done, const State& parent,
                                      Operation operation, const Deadline& deadline);

/// A communicator around what NCCL made; `native` is null where this rank is in none.
Result<std::shared_ptr<State>> wrap(State& parent, ncclComm_t native, Operation operation,
                                    std::uint64_t id, const Deadline& deadline);

inline Deadline deadline_of(const State& state) {
  return Deadline(state.config.launch->init_timeout);
}

}  // namespace comm::detail::nccl
