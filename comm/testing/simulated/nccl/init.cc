// Unique ids and the ways into a communicator ("Communicator Creation and Management Functions").

#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "comm/testing/simulated/core/entry.h"
#include "comm/testing/simulated/nccl/aliases.h"
#include "comm/testing/simulated/nccl/bootstrap.h"
#include "comm/testing/simulated/nccl/configuration.h"
#include "comm/testing/simulated/nccl/group.h"
#include "comm/testing/simulated/nccl/link.h"
#include "comm/testing/simulated/nccl/version.h"
#include "comm/testing/simulated/report.h"
#include "comm/testing/simulated/settings.h"

using namespace comm::simulated;
using namespace comm::simulated::detail;

namespace {

// What NCCL checks when it knows all ranks.
ncclResult_t check_peers(const ncclComm& comm, const std::vector<Address>& all) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].version != all[0].version) {
      set_last_error("Mismatched NCCL version detected: rank %zu has %d, rank 0 has %d", i,
                     all[i].version, all[0].version);
      return ncclInvalidUsage;
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (all[i].bus_id != all[j].bus_id) continue;
      set_last_error("Duplicate GPU detected: rank %zu and rank %zu both on CUDA device %x0", j, i,
                     static_cast<unsigned>(all[i].bus_id));
      report(Violation::bad_usage, "%s: rank %zu and rank %zu are both on device %d",
             comm.name.c_str(), j, i, all[i].device);
      return ncclInvalidUsage;
    }
  }
  return ncclSuccess;
}

ncclResult_t run_init(const CommPtr& comm, const std::vector<ncclUniqueId>& ids,
                      const FaultDecision& fault) {
  const auto stopped = [&] {
    const Lock lock(machine().mutex);
    return comm->stop;
  };
  if (fault.is(FaultAction::never_finish) || fault.is(FaultAction::block) ||
      fault.is(FaultAction::vanish)) {
    comm->endpoint->wait_until_stopped();
    return ncclInternalError;
  }
  apply(fault);
  std::uint64_t digest = 0;
  for (const ncclUniqueId& id : ids) digest = digest * 31 + number_of(id);
  std::vector<Address> all;
  const Address mine = address_of(*comm);
  ncclResult_t result = meet(ids.front(), comm->size, comm->rank, mine, digest, stopped, &all);
  if (result != ncclSuccess) {
    set_last_error("rank %d of %d: the bootstrap failed", comm->rank, comm->size);
    return result;
  }
  result = check_peers(*comm, all);
  if (result != ncclSuccess) return result;
  comm->endpoint->join(comm->rank, all, comm->name);
  const Lock lock(machine().mutex);
  if (comm->stop) return ncclInternalError;
  comm->phase = Phase::ready;
  if (fault.is(FaultAction::in_progress)) comm->polls_left = fault.value;
  return ncclSuccess;
}

ncclResult_t init(const char* call, ncclComm_t* handle, int size, int rank,
                  std::vector<ncclUniqueId> ids, const ncclConfig_t* config) {
  if (handle == nullptr) {
    set_last_error("%s: comm argument is NULL", call);
    return ncclInvalidArgument;
  }
  *handle = nullptr;
  const FaultDecision fault = decide_fault(call, rank);
  if (fault.is(FaultAction::fail)) return static_cast<ncclResult_t>(fault.value);
  if (size < 1 || rank < 0 || rank >= size) {
    set_last_error("%s: invalid rank requested: %d/%d", call, rank, size);
    return ncclInvalidArgument;
  }
  if (settings().devices == 0 || driver_unloaded()) {
    set_last_error("%s: no usable CUDA device", call);
    return ncclUnhandledCudaError;
  }
  {
    Lock lock(machine().mutex);
    if (check_unsafe(lock) != cudaSuccess) {
      set_last_error("%s: not while a stream is being captured", call);
      return ncclUnhandledCudaError;
    }
  }
  Configuration options;
  const ncclResult_t checked = read_configuration(config, nullptr, &options);
  if (checked != ncclSuccess) return checked;
  const CommPtr comm =
      make_communicator(size, rank, current_device(), number_of(ids.front()), options);
  *handle = comm.get();
  retain_root(comm->number);
  Job job;
  job.comm = comm;
  job.blocking = comm->blocking;
  job.run = [comm, ids = std::move(ids), fault] {
    const ncclResult_t result = run_init(comm, ids, fault);
    release_root(number_of(ids.front()));
    return result;
  };
  job.undo = [comm, handle](ncclResult_t result) {
    {
      const Lock lock(machine().mutex);
      comm->state = result;
      if (!comm->blocking) return;  // The handle stays, to be aborted.
      if (!comm->stop) *handle = nullptr;
    }
    if (find(comm.get(), "ncclCommInitRank") != nullptr) bury(comm, "its failed initialisation");
  };
  return group_error(add(std::move(job)));
}

}  // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const FaultDecision fault = decide_fault("ncclGetUniqueId", -1);
  if (fault.is(FaultAction::fail)) return static_cast<ncclResult_t>(fault.value);
  if (id == nullptr) return ncclInvalidArgument;
  return make_unique_id(id);
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  return group_error(init("ncclCommInitRank", comm, size, rank, {id}, nullptr));
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return group_error(init("ncclCommInitRankConfig", comm, size, rank, {id}, config));
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 4)
ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int size, int rank, int count,
                                      ncclUniqueId* ids, ncclConfig_t* config) {
  if (count < 1 || count > size || ids == nullptr) {
    set_last_error("ncclCommInitRankScalable: %d unique ids for %d ranks", count, size);
    return group_error(ncclInvalidArgument);
  }
  return group_error(init("ncclCommInitRankScalable", comm, size, rank,
                          std::vector<ncclUniqueId>(ids, ids + count), config));
}
#endif

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  if (comms == nullptr || count < 1 || count > settings().devices) {
    set_last_error("ncclCommInitAll: %d devices wanted, %d there", count, settings().devices);
    return ncclInvalidArgument;
  }
  ncclUniqueId id;
  const ncclResult_t made = make_unique_id(&id);
  if (made != ncclSuccess) return made;
  for (int i = 0; devices != nullptr && i < count; ++i) {
    if (devices[i] < 0 || devices[i] >= settings().devices ||
        std::count(devices, devices + count, devices[i]) > 1) {
      set_last_error("ncclCommInitAll: device %d is not there, or listed twice", devices[i]);
      return devices[i] < 0 || devices[i] >= settings().devices ? ncclUnhandledCudaError
                                                                : ncclInvalidUsage;
    }
  }
  const int before = current_device();
  group_start();
  for (int rank = 0; rank < count; ++rank) {
    current_device() = devices == nullptr ? rank : devices[rank];
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    init("ncclCommInitAll", &comms[rank], count, rank, {id}, &config);
  }
  current_device() = before;
  return group_end();
}

}  // extern "C"

COMM_SIM_PROFILER_ALIAS(ncclGetUniqueId);
COMM_SIM_PROFILER_ALIAS(ncclCommInitRank);
COMM_SIM_PROFILER_ALIAS(ncclCommInitRankConfig);
COMM_SIM_PROFILER_ALIAS(ncclCommInitAll);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 4)
COMM_SIM_PROFILER_ALIAS(ncclCommInitRankScalable);
#endif
