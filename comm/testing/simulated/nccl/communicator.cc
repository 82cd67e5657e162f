#include "comm/testing/simulated/nccl/communicator.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "comm/testing/simulated/core/exit.h"
#include "comm/testing/simulated/core/stream.h"
#include "comm/testing/simulated/nccl/inside.h"
#include "comm/testing/simulated/report.h"

namespace comm::simulated::detail {
namespace {

struct Communicators {
  std::mutex mutex;
  std::map<const ncclComm*, CommPtr> alive;
  std::map<const ncclComm*, CommPtr> buried;  // Their addresses are not used again.
};

Communicators& communicators() {
  static Communicators& all = *new Communicators;
  return all;
}

char last_text[1024] = "";

}  // namespace

CommPtr find(const ncclComm* handle, const char* call) {
  CommPtr buried;
  {
    const std::lock_guard lock(communicators().mutex);
    const auto found = communicators().alive.find(handle);
    if (found != communicators().alive.end()) return found->second;
    const auto old = communicators().buried.find(handle);
    if (old != communicators().buried.end()) buried = old->second;
  }
  if (buried == nullptr) {
    report(Violation::stale_handle, "%s: %p is no communicator", call,
           static_cast<const void*>(handle));
  } else {
    report(Violation::stale_handle, "%s: rank %d of %s was ended by %s before", call, buried->rank,
           buried->name.c_str(), buried->ended_by);
  }
  return nullptr;
}

CommPtr adopt(std::shared_ptr<ncclComm> comm) {
  watch_exit();
  set_leak_reporter(report_nccl_leaks);
  const std::lock_guard lock(communicators().mutex);
  communicators().alive[comm.get()] = comm;
  return comm;
}

void bury(const CommPtr& comm, const char* how) {
  {
    const Lock lock(machine().mutex);
    comm->phase = Phase::ended;
    comm->ended_by = how;
    comm->last = nullptr;
    for (void* handle : comm->registrations) machine().registered.erase(handle);
    for (void* handle : comm->windows) machine().registered.erase(handle);
  }
  comm->endpoint->on_arrival(nullptr);
  const std::lock_guard lock(communicators().mutex);
  communicators().alive.erase(comm.get());
  communicators().buried[comm.get()] = comm;
}

void message_arrived(ncclComm& comm, const Message& message) {
  const bool is_message = message.channel == Channel::data || message.channel == Channel::ready;
  if (!is_message && message.channel != Channel::collective) return;
  Lock lock(machine().mutex);
  if (is_message) {
    ++comm.wanted_messages;
  } else {
    comm.wanted = std::max(comm.wanted, message.sequence);
  }
  for (const auto& [number, op] : comm.waiting) {
    if (number == 0 ? is_message : number <= comm.wanted) force(lock, op);
  }
}

void enqueued(Lock& lock, ncclComm& comm, std::uint64_t number, const OperationPtr& op) {
  while (!comm.waiting.empty() && comm.waiting.front().second->done()) comm.waiting.pop_front();
  comm.waiting.emplace_back(number, op);
  if (number == 0 ? comm.wanted_messages > 0 : number <= comm.wanted) force(lock, op);
}

ncclResult_t enter_any(const char* call, const ncclComm* handle, CommPtr* comm,
                       FaultDecision* fault) {
  if (handle == nullptr) {
    set_last_error("%s: comm argument is NULL", call);
    return ncclInvalidArgument;
  }
  *comm = find(handle, call);
  if (*comm == nullptr) return ncclInvalidArgument;
  const int rank = (*comm)->rank;
  *fault = decide_fault(call, rank);
  if (driver_unloaded()) {
    report(Violation::bad_usage, "%s on rank %d of %s after the CUDA driver was unloaded", call,
           rank, (*comm)->name.c_str());
    return ncclUnhandledCudaError;
  }
  if (fault->is(FaultAction::fail)) {
    set_last_error("%s: injected failure", call);
    return failed(*comm, static_cast<ncclResult_t>(fault->value));
  }
  if (fault->is(FaultAction::vanish)) (*comm)->endpoint->vanish();
  if (fault->is(FaultAction::block)) {
    const InsideCall inside(call, (*comm)->device);
    (*comm)->endpoint->wait_until_stopped();
    return ncclInternalError;
  }
  return ncclSuccess;
}

ncclResult_t enter(const char* call, const ncclComm* handle, CommPtr* comm, FaultDecision* fault) {
  const ncclResult_t result = enter_any(call, handle, comm, fault);
  if (result != ncclSuccess) return result;
  const Lock lock(machine().mutex);
  ncclComm& here = **comm;
  if (here.state == ncclInProgress) {
    report(Violation::bad_usage,
           "%s on rank %d of %s while it is ncclInProgress: poll ncclCommGetAsyncError to "
           "ncclSuccess first",
           call, here.rank, here.name.c_str());
    set_last_error("%s: the previous operation has not returned ncclSuccess yet", call);
    here.state = ncclInvalidArgument;
    return ncclInvalidArgument;
  }
  if (here.state != ncclSuccess) return here.state;
  if (here.phase == Phase::finalized) {
    set_last_error("%s: the communicator is finalized", call);
    if (!here.blocking) here.state = ncclInvalidUsage;
    return ncclInvalidUsage;
  }
  return ncclSuccess;
}

ncclResult_t failed(const CommPtr& comm, ncclResult_t result) {
  if (comm != nullptr && result != ncclSuccess && result != ncclInProgress && !comm->blocking) {
    const Lock lock(machine().mutex);
    comm->state = result;
  }
  return result;
}

void set_last_error(const char* format, ...) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(last_text, sizeof(last_text), format, arguments);
  va_end(arguments);
}

const char* last_nccl_error() {
  return last_text;
}

int report_nccl_leaks() {
  std::vector<CommPtr> alive;
  {
    const std::lock_guard lock(communicators().mutex);
    for (const auto& [handle, comm] : communicators().alive) alive.push_back(comm);
  }
  int leaks = 0;
  for (const CommPtr& comm : alive) {
    ++leaks;
    report(Violation::leak, "rank %d of %d of %s was neither destroyed nor aborted", comm->rank,
           comm->size, comm->name.c_str());
  }
  const Lock lock(machine().mutex);
  for (const auto& [handle, range] : machine().registered) {
    ++leaks;
    report(Violation::leak, "%s has [%p, +%zu) registered still", range.by.c_str(),
           reinterpret_cast<void*>(range.begin), range.size);
  }
  return leaks;
}

}  // namespace comm::simulated::detail
