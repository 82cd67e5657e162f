// Tasks of a closed group become operations on streams: one for each communicator, as NCCL fuses a
// group into one kernel.

#include <algorithm>
#include <utility>

#include "comm/testing/simulated/core/entry.h"
#include "comm/testing/simulated/nccl/group.h"
#include "comm/testing/simulated/report.h"
#include "comm/testing/simulated/settings.h"

namespace comm::simulated::detail {
namespace {

// Counts a graph that holds operations of the communicator: destroy and abort wait for it to go.
class GraphReference {
 public:
  explicit GraphReference(std::shared_ptr<std::atomic<int>> count) : count_(std::move(count)) {
    ++*count_;
  }
  ~GraphReference() { --*count_; }
  GraphReference(const GraphReference&) = delete;
  GraphReference& operator=(const GraphReference&) = delete;

 private:
  std::shared_ptr<std::atomic<int>> count_;
};

std::vector<Batch> by_communicator(const std::vector<Task>& tasks) {
  std::vector<Batch> batches;
  for (const Task& task : tasks) {
    const auto same = [&](const Batch& batch) { return batch.comm == task.comm; };
    auto found = std::find_if(batches.begin(), batches.end(), same);
    if (found == batches.end()) {
      batches.push_back({task.comm, {}});
      found = std::prev(batches.end());
    }
    found->tasks.push_back(task);
  }
  return batches;
}

bool is_message(const Task& task) {
  return task.call.kind == CallKind::send || task.call.kind == CallKind::recv;
}

// The peers that the batch needs a connection to and has none: -1 stands for all, by a collective.
std::vector<int> unconnected(const Batch& batch) {
  const Lock lock(machine().mutex);
  std::vector<int> peers;
  for (const Task& task : batch.tasks) {
    const int peer = is_message(task) ? task.call.root : -1;
    if (peer != batch.comm->rank && batch.comm->connected.insert(peer).second) {
      peers.push_back(peer);
    }
  }
  return peers;
}

void for_each_peer(const ncclComm& comm, int which, const std::function<void(int)>& body) {
  for (int rank = 0; rank < comm.size; ++rank) {
    if (rank != comm.rank && (which == -1 || which == rank)) body(rank);
  }
}

// NCCL connects a pair of ranks when they first need it, and blocks the host meanwhile.
ncclResult_t connect(const std::vector<Batch>& batches) {
  if (!settings().connect_lazily) return ncclSuccess;
  std::vector<std::vector<int>> needed;
  for (const Batch& batch : batches) {
    needed.push_back(unconnected(batch));
    for (int which : needed.back()) {
      for_each_peer(*batch.comm, which, [&](int peer) {
        Message message;
        message.channel = Channel::connect;
        message.sequence = which == -1 ? 0 : 1;
        batch.comm->endpoint->send(peer, std::move(message));
      });
    }
  }
  for (std::size_t i = 0; i < batches.size(); ++i) {
    bool connected = true;
    for (int which : needed[i]) {
      for_each_peer(*batches[i].comm, which, [&](int peer) {
        Message message;
        connected = connected && batches[i].comm->endpoint->receive(
                                     Channel::connect, which == -1 ? 0 : 1, peer, &message);
      });
    }
    if (!connected) {
      set_last_error("the communicator was aborted while it connected");
      return ncclInternalError;
    }
  }
  return ncclSuccess;
}

// A pointer that the device cannot use faults there: the device is broken from then on.
bool check_pointer(const Task& task, const char* what, const void* pointer, std::size_t blocks) {
  const std::size_t element = size_of(static_cast<ncclDataType_t>(task.call.type));
  const std::size_t size = task.call.count * element * blocks;
  if (size == 0) return true;
  std::string why = describe_bad_range(machine().memory, pointer, size, element, true);
  if (why.empty()) return true;
  report(Violation::bad_pointer, "%s on rank %d of %s: %s: %s", describe(task.call).c_str(),
         task.comm->rank, task.comm->name.c_str(), what, why.c_str());
  const bool misaligned = reinterpret_cast<std::uintptr_t>(pointer) % element != 0;
  machine().devices[static_cast<std::size_t>(task.comm->device)].sticky_error =
      misaligned ? cudaErrorMisalignedAddress : cudaErrorIllegalAddress;
  return false;
}

// What the task reads and writes; false when a pointer is bad.
bool add_accesses(const Task& task, std::vector<Access>* accesses) {
  const ncclComm& comm = *task.comm;
  const bool is_root = task.call.root == comm.rank;
  const std::size_t all = static_cast<std::size_t>(comm.size);
  std::size_t sent = 1;
  std::size_t received = 1;
  switch (task.call.kind) {
    case CallKind::broadcast: sent = is_root ? 1 : 0; break;
    case CallKind::reduce: received = is_root ? 1 : 0; break;
    case CallKind::all_gather: received = all; break;
    case CallKind::reduce_scatter: sent = all; break;
    case CallKind::all_to_all: sent = received = all; break;
    case CallKind::gather: received = is_root ? all : 0; break;
    case CallKind::scatter: sent = is_root ? all : 0; break;
    case CallKind::send: received = 0; break;
    case CallKind::recv: sent = 0; break;
    default: break;
  }
  if (!check_pointer(task, "send buffer", task.send, sent) ||
      !check_pointer(task, "receive buffer", task.receive, received)) {
    return false;
  }
  const std::size_t size = task.call.count * size_of(static_cast<ncclDataType_t>(task.call.type));
  if (sent != 0) accesses->push_back(reads(task.send, size * sent));
  if (received != 0) accesses->push_back(writes(task.receive, size * received));
  return true;
}

ncclResult_t refuse(cudaError_t error, const CommPtr& comm) {
  set_last_error("rank %d: CUDA failure '%s'", comm->rank, cudaGetErrorString(error));
  return ncclUnhandledCudaError;
}

Submission make_submission(const std::shared_ptr<Batch>& batch) {
  Submission launch;
  launch.pace = Pace::background;
  launch.is_collective = true;
  launch.what = describe(batch->tasks.front().call) + " on rank " +
                std::to_string(batch->comm->rank) + " of " + batch->comm->name;
  if (batch->tasks.size() > 1) {
    launch.what += " and " + std::to_string(batch->tasks.size() - 1) + " more in its group";
  }
  bool pointers_are_good = true;
  for (const Task& task : batch->tasks) {
    pointers_are_good = add_accesses(task, &launch.accesses) && pointers_are_good;
    if (task.fault.is(FaultAction::delay)) launch.delay_ms = static_cast<int>(task.fault.value);
  }
  Device& device = machine().devices[static_cast<std::size_t>(batch->comm->device)];
  const auto first = std::make_shared<std::uint64_t>(0);
  launch.prepare = [batch, &device, pointers_are_good, first](Waits& waits) -> Submission::Run {
    if (batch->comm->last != nullptr) waits.unpromised.push_back(batch->comm->last);
    if (device.last_collective != nullptr && settings().serialize_communicators) {
      waits.unpromised.push_back(device.last_collective);
    }
    Lock already(machine().mutex, std::defer_lock);
    const std::vector<std::uint64_t> numbers = number_tasks(already, *batch);
    *first = 0;
    for (std::size_t i = numbers.size(); i-- > 0;) {
      if (!is_message(batch->tasks[i])) *first = numbers[i];
    }
    if (!pointers_are_good) return nullptr;
    return [batch, numbers](Operation& op) { run_batch(*batch, numbers, op); };
  };
  launch.enqueued = [comm = batch->comm, &device, first](const OperationPtr& op) {
    comm->last = op;
    device.last_collective = op;
    Lock already(machine().mutex, std::defer_lock);
    enqueued(already, *comm, *first, op);
  };
  return launch;
}

// A group over several streams of one communicator orders all of them: each stream's earlier work
// comes before the group's, and its later work after it.
ncclResult_t submit_batch(Lock& lock, const std::shared_ptr<Batch>& batch) {
  const CommPtr& comm = batch->comm;
  std::vector<Stream*> streams;
  for (const Task& task : batch->tasks) {
    Stream* stream = resolve(lock, task.stream, name_of(task.call.kind));
    if (stream == nullptr) return refuse(cudaErrorInvalidResourceHandle, comm);
    if (stream->device != comm->device) {
      report(Violation::bad_usage, "%s on rank %d of %s: %s is not of the communicator's device %d",
             describe(task.call).c_str(), comm->rank, comm->name.c_str(), name_of(stream).c_str(),
             comm->device);
      return refuse(cudaErrorInvalidResourceHandle, comm);
    }
    if (std::find(streams.begin(), streams.end(), stream) == streams.end()) {
      streams.push_back(stream);
    }
  }
  Stream* main = streams.front();
  Event event;
  event.device = comm->device;
  for (std::size_t i = 1; i < streams.size(); ++i) {
    cudaError_t error = record(lock, &event, streams[i]);
    if (error == cudaSuccess) error = wait_event(lock, main, &event);
    if (error != cudaSuccess) return refuse(error, comm);
  }
  Submission launch = make_submission(batch);
  if (main->capture != nullptr) launch.keep = std::make_shared<GraphReference>(comm->graphs);
  cudaError_t error = submit(lock, main, std::move(launch), cudaGraphNodeTypeKernel);
  if (error == cudaSuccess && streams.size() > 1) error = record(lock, &event, main);
  for (std::size_t i = 1; i < streams.size() && error == cudaSuccess; ++i) {
    error = wait_event(lock, streams[i], &event);
  }
  return error == cudaSuccess ? ncclSuccess : refuse(error, comm);
}

}  // namespace

ncclResult_t launch(const std::vector<Task>& tasks) {
  const std::vector<Batch> batches = by_communicator(tasks);
  const ncclResult_t connected = connect(batches);
  if (connected != ncclSuccess) return connected;
  const int device = current_device();
  ncclResult_t result = ncclSuccess;
  for (const Batch& batch : batches) {
    Lock lock(machine().mutex);
    if (batch.comm->stop) return ncclInternalError;
    current_device() = batch.comm->device;  // What stream 0 means.
    result = submit_batch(lock, std::make_shared<Batch>(batch));
    if (result != ncclSuccess) break;
  }
  current_device() = device;
  return result;
}

}  // namespace comm::simulated::detail
