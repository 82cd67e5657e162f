#pragma once

/// The simulated machine: everything that the CUDA and NCCL calls of this process share, behind one
/// mutex. It is made on first use and never destroyed, since objects with static storage may still
/// call CUDA while the process ends.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "comm/testing/simulated/core/memory.h"
#include "comm/testing/simulated/core/operation.h"

namespace comm::simulated::detail {

struct Capture;
struct Event;
struct Graph;
struct GraphExec;

struct Device {
  Stream* legacy = nullptr;  // Made on first use.
  std::uint64_t streams_made = 0;
  int sticky_error = 0;          // cudaError_t that every later call answers.
  std::vector<int> peers;        // cudaDeviceEnablePeerAccess
  OperationPtr last_collective;  // See Settings::serialize_communicators.
};

/// Memory that a communicator or a window has registered: it must outlive that.
struct RegisteredRange {
  std::uintptr_t begin = 0;
  std::size_t size = 0;
  std::string by;
};

struct Machine {
  std::mutex mutex;
  std::condition_variable progress;  // Something is done, or was aborted.

  Memory memory;
  std::vector<Device> devices{64};
  std::set<Stream*> streams;  // Also those destroyed that still have work.
  std::set<Event*> events;
  std::set<Graph*> graphs;
  std::set<GraphExec*> graph_execs;
  std::set<Capture*> captures;                        // Under way.
  std::map<const void*, RegisteredRange> registered;  // By handle.
  std::uint64_t next_id = 1;

  Clock host;                        // What some thread of the host knows to be over.
  std::deque<OperationPtr> pending;  // With accesses, and not known by the host to be over.
};

Machine& machine();

using Lock = std::unique_lock<std::mutex>;

std::int64_t now_ns();

/// Reports each access that conflicts with one of an operation that nothing orders before `op`, and
/// keeps `op` for the operations to come.
void check_order(const OperationPtr& op);

/// Reports operations that use [pointer, +size) and that the host does not know to be over.
void check_not_in_flight(const void* pointer, std::size_t size, const char* call);

/// Reports registrations that still cover [pointer, +size).
void check_not_registered(const void* pointer, std::size_t size, const char* call);

/// The host has seen `op` complete, and with it all that is before it.
void host_saw(const OperationPtr& op);

}  // namespace comm::simulated::detail
