#pragma once

/// How ranks meet: ncclGetUniqueId starts a root, a thread that listens on an abstract socket named
/// in the id, collects one greeting from each rank, and gives all of them everybody's address. It
/// serves one communicator and is gone then; a root that hears a rank twice, or two world sizes,
/// gives up, and the ranks wait for ever, as with NCCL.

#include <nccl.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "comm/testing/simulated/nccl/endpoint.h"

namespace comm::simulated::detail {

/// Makes an id and starts its root.
ncclResult_t make_unique_id(ncclUniqueId* id);

/// Ranks of this process that use the id. When the last of them has given up, a root that this
/// process serves and that still waits for others ends: no thread and no descriptor is left.
void retain_root(std::uint64_t number);
void release_root(std::uint64_t number);

/// A number for the id, to name it in reports; 0: not made by make_unique_id.
std::uint64_t number_of(const ncclUniqueId& id);

/// Greets the root as `rank` and waits for the addresses. `stopped` is asked now and then.
ncclResult_t meet(const ncclUniqueId& id, int size, int rank, const Address& mine,
                  std::uint64_t ids_digest, const std::function<bool()>& stopped,
                  std::vector<Address>* addresses);

}  // namespace comm::simulated::detail
