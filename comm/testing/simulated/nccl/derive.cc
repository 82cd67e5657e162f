// Communicators made from others: split and shrink.

#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/testing/simulated/core/stream.h"
#include "comm/testing/simulated/nccl/aliases.h"
#include "comm/testing/simulated/nccl/configuration.h"
#include "comm/testing/simulated/nccl/exchange.h"
#include "comm/testing/simulated/nccl/group.h"
#include "comm/testing/simulated/report.h"

using namespace comm::simulated;
using namespace comm::simulated::detail;

namespace {

// What each parent rank says of itself. Plain, since it is sent as it is.
struct Candidate {
  std::int32_t color = 0;
  std::int32_t key = 0;
  std::int32_t rank = 0;
  Address address;
};

std::string pack(const Candidate& candidate) {
  std::string bytes(sizeof(candidate), '\0');
  std::memcpy(bytes.data(), &candidate, sizeof(candidate));
  return bytes;
}

Candidate unpack(const std::string& bytes) {
  Candidate candidate;
  std::memcpy(&candidate, bytes.data(), sizeof(candidate));
  return candidate;
}

// Makes the child rank of `parent`, with the candidates of its color in their order.
void join_child(const CommPtr& parent, const CommPtr& child, std::vector<Candidate> members,
                std::uint64_t number) {
  std::vector<Address> addresses;
  int rank = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    addresses.push_back(members[i].address);
    if (members[i].rank == parent->rank) rank = static_cast<int>(i);
  }
  {
    const Lock lock(machine().mutex);
    set_place(*child, static_cast<int>(members.size()), rank, number);
    child->phase = Phase::ready;
    if (parent->share) {  // The parent's config decides, not the child's.
      child->family.push_back(parent);
      parent->family.push_back(child);
    }
  }
  child->endpoint->join(rank, addresses, child->name);
}

// NCCL's background thread writes the handle when all is done; the state to poll is the parent's.
ncclResult_t start(const CommPtr& parent, std::function<ncclResult_t()> run) {
  Job job;
  job.comm = parent;
  job.blocking = parent->blocking;
  job.run = std::move(run);
  const ncclResult_t result = group_error(add(std::move(job)));
  return result == ncclInProgress ? ncclSuccess : result;
}

void check_no_operations(const char* call, const ncclComm& comm) {
  const Lock lock(machine().mutex);
  if (comm.last != nullptr && !comm.last->before(machine().host)) {
    report(Violation::bad_usage, "%s on rank %d of %s while %s is not known to be over", call,
           comm.rank, comm.name.c_str(), comm.last->what.c_str());
  }
}

}  // namespace

extern "C" {

ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t* out,
                           ncclConfig_t* config) {
  CommPtr parent;
  FaultDecision fault;
  ncclResult_t result = enter("ncclCommSplit", handle, &parent, &fault);
  if (result != ncclSuccess) return group_error(result);
  if (out == nullptr || color < NCCL_SPLIT_NOCOLOR) {
    return group_error(failed(parent, ncclInvalidArgument));
  }
  Configuration options;
  result = read_configuration(config, parent.get(), &options);
  if (result != ncclSuccess) return group_error(failed(parent, result));
  check_no_operations("ncclCommSplit", *parent);
  *out = nullptr;
  return start(parent, [=] {
    if (fault.is(FaultAction::never_finish)) {
      parent->endpoint->wait_until_stopped();
      return ncclInternalError;
    }
    const bool takes_part = color != NCCL_SPLIT_NOCOLOR;
    const CommPtr child =
        takes_part ? make_communicator(1, 0, parent->device, parent->number, options) : nullptr;
    Candidate mine{color, key, parent->rank, {}};
    if (takes_part) mine.address = address_of(*child);
    std::vector<std::string> said;
    if (!exchange(*parent, pack(mine), &said)) {
      if (takes_part) bury(child, "a failed ncclCommSplit");
      return ncclInternalError;
    }
    if (!takes_part) return ncclSuccess;
    std::vector<Candidate> members;
    for (const std::string& bytes : said) {
      const Candidate candidate = unpack(bytes);
      if (candidate.color == color) members.push_back(candidate);
    }
    std::stable_sort(members.begin(), members.end(),
                     [](const Candidate& a, const Candidate& b) { return a.key < b.key; });
    const std::uint64_t number =
        parent->number * 31 + parent->controls * 7 + static_cast<std::uint64_t>(color) + 1;
    join_child(parent, child, members, number);
    *out = child.get();
    return ncclSuccess;
  });
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
ncclResult_t ncclCommShrink(ncclComm_t handle, int* excluded, int count, ncclComm_t* out,
                            ncclConfig_t* config, int flags) {
  CommPtr parent;
  FaultDecision fault;
  // With NCCL_SHRINK_ABORT the parent may be in any state.
  const bool aborts = flags == NCCL_SHRINK_ABORT;
  ncclResult_t result = aborts ? enter_any("ncclCommShrink", handle, &parent, &fault)
                               : enter("ncclCommShrink", handle, &parent, &fault);
  if (result != ncclSuccess) return group_error(result);
  if (out == nullptr || excluded == nullptr || count <= 0 || count >= parent->size ||
      (flags != NCCL_SHRINK_DEFAULT && !aborts)) {
    set_last_error("ncclCommShrink: invalid argument");
    return group_error(failed(parent, ncclInvalidArgument));
  }
  std::sort(excluded, excluded + count);  // In the caller's array, as NCCL does.
  std::vector<int> ranks;
  for (int rank = 0; rank < parent->size; ++rank) {
    if (!std::binary_search(excluded, excluded + count, rank)) ranks.push_back(rank);
  }
  if (!std::binary_search(ranks.begin(), ranks.end(), parent->rank)) {
    set_last_error("ncclCommShrink: called by the excluded rank %d", parent->rank);
    return group_error(failed(parent, ncclInvalidArgument));
  }
  Configuration options;
  result = read_configuration(config, parent.get(), &options);
  if (result != ncclSuccess) return group_error(failed(parent, result));
  *out = nullptr;
  if (aborts) {
    parent->endpoint->stop_operations();
  } else {
    check_no_operations("ncclCommShrink", *parent);
  }
  return start(parent, [=] {
    std::uint64_t sequence = std::uint64_t{1} << 32;  // Apart from what all ranks exchange.
    {
      Lock lock(machine().mutex);
      sequence += ++parent->shrinks;
      if (aborts && parent->last != nullptr) wait_for(lock, OperationPtr(parent->last));
    }
    const CommPtr child = make_communicator(1, 0, parent->device, parent->number, options);
    const Candidate mine{0, 0, parent->rank, address_of(*child)};
    std::vector<std::string> said;
    if (!exchange(*parent, sequence, ranks, pack(mine), &said)) {
      bury(child, "a failed ncclCommShrink");
      return ncclInternalError;
    }
    std::vector<Candidate> members;
    for (const std::string& bytes : said) members.push_back(unpack(bytes));
    join_child(parent, child, members, parent->number * 31 + sequence);
    *out = child.get();
    return ncclSuccess;
  });
}
COMM_SIM_PROFILER_ALIAS(ncclCommShrink);
#endif

}  // extern "C"

COMM_SIM_PROFILER_ALIAS(ncclCommSplit);
