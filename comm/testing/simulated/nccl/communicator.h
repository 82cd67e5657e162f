#pragma once

/// A communicator of the simulation, which is what an `ncclComm_t` points to. Its fields belong to
/// the machine's mutex, but for those that do not change once it is initialised. A handle is
/// checked against those alive before it is followed; destroyed ones are kept, so that a late use
/// can be named.

#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comm/testing/simulated/core/machine.h"
#include "comm/testing/simulated/faults.h"
#include "comm/testing/simulated/nccl/endpoint.h"

namespace comm::simulated::detail {

enum class Phase { initializing, ready, finalized, revoked, ended };

struct CustomReduction {
  ncclDataType_t type = ncclInt8;
  const void* device_scalar = nullptr;  // Read when the operation runs; null: `scalar` holds it.
  std::vector<char> scalar;
};

}  // namespace comm::simulated::detail

struct ncclComm {
  int rank = 0;
  int size = 1;
  int device = 0;
  bool blocking = true;
  bool share = false;  // splitShare and shrinkShare, as this communicator's config says
  std::uint64_t number = 0;
  std::string name;  // For reports: "communicator 1a2b"
  std::shared_ptr<comm::simulated::detail::Endpoint> endpoint;

  comm::simulated::detail::Phase phase = comm::simulated::detail::Phase::initializing;
  ncclResult_t state = ncclSuccess;  // ncclCommGetAsyncError
  bool stop = false;                 // Abort flag.
  const char* ended_by = "";
  int jobs = 0;                 // Threads at work on it, and calls inside it.
  std::int64_t polls_left = 0;  // Until a pending launch happens.

  std::uint64_t issued = 0;    // Collectives so far.
  std::uint64_t controls = 0;  // Calls of the host that all ranks make.
  std::uint64_t shrinks = 0;
  std::vector<std::uint64_t> sends, receives;  // By peer.
  std::set<int> connected;                     // -1: by a collective, with all.
  comm::simulated::detail::OperationPtr last;
  // Operations not known to be done, each with the number of its first collective (0: messages
  // only), and what peers wait for: those are no longer held back.
  std::deque<std::pair<std::uint64_t, comm::simulated::detail::OperationPtr>> waiting;
  std::uint64_t wanted = 0;
  std::int64_t wanted_messages = 0;
  std::shared_ptr<std::atomic<int>> graphs = std::make_shared<std::atomic<int>>(0);
  std::vector<std::optional<comm::simulated::detail::CustomReduction>> reductions;
  std::set<void*> registrations;
  std::set<void*> windows;
  std::vector<std::weak_ptr<ncclComm>> family;  // Those that share its resources.
};

namespace comm::simulated::detail {

using CommPtr = std::shared_ptr<ncclComm>;

/// The communicator, or null after a report when the handle is stale or was never one.
CommPtr find(const ncclComm* handle, const char* call);

/// Enters it into the table of those alive.
CommPtr adopt(std::shared_ptr<ncclComm> comm);

/// Out of that table; `how` is told to who uses it later.
void bury(const CommPtr& comm, const char* how);

/// A peer's message has come: what it waits for here is no longer held back.
void message_arrived(ncclComm& comm, const Message& message);

/// An operation whose first collective has that number (0: messages only) was put on a stream.
void enqueued(Lock& lock, ncclComm& comm, std::uint64_t number, const OperationPtr& op);

/// What a call on a communicator starts with (ncclCommEnsureReady, after faults and the handle). On
/// success `*comm` is set.
ncclResult_t enter(const char* call, const ncclComm* handle, CommPtr* comm, FaultDecision* fault);

/// The same without the check that it is ready: for abort, destroy and queries.
ncclResult_t enter_any(const char* call, const ncclComm* handle, CommPtr* comm,
                       FaultDecision* fault);

/// A failed call on a non-blocking communicator leaves its code as the communicator's state.
ncclResult_t failed(const CommPtr& comm, ncclResult_t result);

/// What ncclGetLastError gives: one text for the process.
[[gnu::format(printf, 1, 2)]] void set_last_error(const char* format, ...);
const char* last_nccl_error();

/// Reports those alive with what they hold; returns how many things.
int report_nccl_leaks();

}  // namespace comm::simulated::detail
