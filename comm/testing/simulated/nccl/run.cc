// What the operations of a communicator do when their turn on the stream has come.

#include <cstring>
#include <utility>

#include "comm/testing/simulated/core/stream.h"
#include "comm/testing/simulated/nccl/group.h"
#include "comm/testing/simulated/report.h"

namespace comm::simulated::detail {
namespace {

using Data = std::shared_ptr<const Bytes>;

Data copy_of(const void* from, std::size_t size) {
  const char* begin = static_cast<const char*>(from);
  return std::make_shared<Bytes>(begin, begin + size);
}

bool is_message(CallKind kind) {
  return kind == CallKind::send || kind == CallKind::recv;
}

// One task at work. Everything `bool` is false when the communicator was stopped meanwhile.
class Runner {
 public:
  Runner(const Task& task, std::uint64_t number, Operation& op)
      : task_(task),
        call_(task.call),
        comm_(*task.comm),
        number_(number),
        op_(op),
        type_(static_cast<ncclDataType_t>(task.call.type)),
        reduction_(static_cast<Reduction>(task.call.reduction)),
        size_(task.call.count * size_of(type_)),
        send_(static_cast<const char*>(task.send)),
        receive_(static_cast<char*>(task.receive)),
        all_(static_cast<std::size_t>(task.comm->size)),
        mine_(static_cast<std::size_t>(task.comm->rank)) {}

  // A send waits for its receiver, as NCCL's rendezvous does for all but small messages.
  void start_message() {
    Message message = header(call_.kind == CallKind::send ? Channel::data : Channel::ready);
    if (call_.kind == CallKind::send) message.data = copy_of(send_, size_);
    comm_.endpoint->send(call_.root, std::move(message));
  }

  bool finish_message() {
    const bool is_send = call_.kind == CallKind::send;
    Message other;
    if (!receive(is_send ? Channel::ready : Channel::data, call_.root, &other)) return false;
    if (!check_message(other.call)) return false;
    {
      const Lock lock(machine().mutex);
      --comm_.wanted_messages;
    }
    hold_completion(op_);
    if (!is_send && size_ > 0) std::memcpy(receive_, other.data->data(), size_);
    return true;
  }

  bool run_collective() {
    prepare_own();
    const bool agreed = comm_.endpoint->agree(number_, call_);
    for (std::size_t to = 0; to < all_; ++to) {
      if (to == mine_) continue;
      Message message = header(Channel::collective);
      message.data = data_for(to);
      comm_.endpoint->send(static_cast<int>(to), std::move(message));
    }
    std::vector<Data> from(all_);
    for (std::size_t rank = 0; rank < all_; ++rank) {
      if (rank == mine_ || !needs(rank)) continue;
      Message message;
      if (!receive(Channel::collective, static_cast<int>(rank), &message)) return false;
      from[rank] = message.data;
    }
    if (!agreed || comm_.endpoint->disagreed(number_)) {
      comm_.endpoint->wait_until_stopped();
      return false;
    }
    hold_completion(op_);
    if (comm_.endpoint->stopped()) return false;
    write(from);
    comm_.endpoint->finish(number_);
    return true;
  }

 private:
  Message header(Channel channel) const {
    Message message;
    message.channel = channel;
    message.sequence = number_;
    message.call = call_;
    return message;
  }

  bool receive(Channel channel, int from, Message* message) {
    return comm_.endpoint->receive(channel, number_, from, message);
  }

  bool check_message(const Call& other);
  void prepare_own();
  Data data_for(std::size_t to);
  bool needs(std::size_t rank) const;
  void write(const std::vector<Data>& from);
  void reduce_into(char* out, const std::vector<Data>& from, std::size_t offset);

  const char* own() const { return scaled_ != nullptr ? scaled_->data() : send_; }

  const Task& task_;
  const Call& call_;
  ncclComm& comm_;
  std::uint64_t number_;
  Operation& op_;
  ncclDataType_t type_;
  Reduction reduction_;
  std::size_t size_;
  const char* send_;
  char* receive_;
  std::size_t all_;
  std::size_t mine_;
  Data scaled_;  // The own contribution, multiplied by the pre-multiplied sum's scalar.
  Data shared_;  // One copy of it for all peers.
};

// Both sides' count and type must be the same; otherwise real ranks hang or get a wrong tail.
bool Runner::check_message(const Call& other) {
  if (other.count == call_.count && other.type == call_.type) return true;
  // Of two ranks that are told, the receiver speaks.
  if (call_.kind == CallKind::recv) {
    report(Violation::mismatch, "%s: message %llu from rank %d to rank %d is %s there and %s here",
           comm_.name.c_str(), static_cast<unsigned long long>(number_), call_.root, comm_.rank,
           describe(other).c_str(), describe(call_).c_str());
  }
  comm_.endpoint->wait_until_stopped();
  return false;
}

// A pre-multiplied sum multiplies each rank's input on that rank; the peers see the product.
void Runner::prepare_own() {
  if (reduction_ != Reduction::premul_sum) return;
  const std::size_t blocks = call_.kind == CallKind::reduce_scatter ? all_ : 1;
  const char* scalar = task_.custom.device_scalar != nullptr
                           ? static_cast<const char*>(task_.custom.device_scalar)
                           : task_.custom.scalar.data();
  const auto scaled = std::make_shared<Bytes>(size_ * blocks);
  reduce(type_, Reduction::premul_sum, {send_}, {scalar}, call_.count * blocks, scaled->data());
  scaled_ = scaled;
  reduction_ = Reduction::sum;
}

Data Runner::data_for(std::size_t to) {
  const std::size_t root = static_cast<std::size_t>(call_.root);
  switch (call_.kind) {
    case CallKind::all_reduce:
    case CallKind::all_gather:
      if (shared_ == nullptr) shared_ = copy_of(own(), size_);
      return shared_;
    case CallKind::broadcast:
      if (mine_ != root) return nullptr;
      if (shared_ == nullptr) shared_ = copy_of(send_, size_);
      return shared_;
    case CallKind::reduce:
    case CallKind::gather: return to == root ? copy_of(own(), size_) : nullptr;
    case CallKind::reduce_scatter:
    case CallKind::all_to_all: return copy_of(own() + to * size_, size_);
    case CallKind::scatter: return mine_ == root ? copy_of(send_ + to * size_, size_) : nullptr;
    default: return nullptr;
  }
}

// Ranks that need nothing from the others complete without them, as NCCL allows.
bool Runner::needs(std::size_t rank) const {
  const std::size_t root = static_cast<std::size_t>(call_.root);
  switch (call_.kind) {
    case CallKind::broadcast:
    case CallKind::scatter: return rank == root;
    case CallKind::reduce:
    case CallKind::gather: return mine_ == root;
    default: return true;
  }
}

void Runner::reduce_into(char* out, const std::vector<Data>& from, std::size_t offset) {
  std::vector<const char*> inputs(all_);
  for (std::size_t rank = 0; rank < all_; ++rank) {
    inputs[rank] = rank == mine_ ? own() + offset : from[rank]->data();
  }
  reduce(type_, reduction_, inputs, {}, call_.count, out);
}

void Runner::write(const std::vector<Data>& from) {
  const bool is_root = static_cast<std::size_t>(call_.root) == mine_;
  const std::size_t root = static_cast<std::size_t>(call_.root);
  const auto gather = [&] {
    for (std::size_t rank = 0; rank < all_; ++rank) {
      // The own block may be in its place already, or be overwritten in an all-to-all.
      const char* block = rank == mine_ ? send_ : from[rank]->data();
      std::memmove(receive_ + rank * size_, block, size_);
    }
  };
  switch (call_.kind) {
    case CallKind::all_reduce: reduce_into(receive_, from, 0); break;
    case CallKind::reduce:
      if (is_root) reduce_into(receive_, from, 0);
      break;
    case CallKind::reduce_scatter: reduce_into(receive_, from, mine_ * size_); break;
    case CallKind::broadcast:
      std::memmove(receive_, is_root ? send_ : from[root]->data(), size_);
      break;
    case CallKind::all_gather: gather(); break;
    case CallKind::gather:
      if (is_root) gather();
      break;
    case CallKind::all_to_all:
      send_ += mine_ * size_;
      gather();
      break;
    case CallKind::scatter:
      std::memmove(receive_, is_root ? send_ + mine_ * size_ : from[root]->data(), size_);
      break;
    default: break;
  }
}

}  // namespace

std::vector<std::uint64_t> number_tasks(Lock&, const Batch& batch) {
  std::vector<std::uint64_t> numbers;
  ncclComm& comm = *batch.comm;
  for (const Task& task : batch.tasks) {
    const std::size_t peer = static_cast<std::size_t>(task.call.root);
    switch (task.call.kind) {
      case CallKind::send: numbers.push_back(++comm.sends[peer]); break;
      case CallKind::recv: numbers.push_back(++comm.receives[peer]); break;
      default: numbers.push_back(++comm.issued); break;
    }
  }
  return numbers;
}

void run_batch(const Batch& batch, const std::vector<std::uint64_t>& numbers, Operation& op) {
  Endpoint& endpoint = *batch.comm->endpoint;
  if (endpoint.stopped()) return;
  std::vector<Runner> runners;
  for (std::size_t i = 0; i < batch.tasks.size(); ++i) {
    const Task& task = batch.tasks[i];
    if (task.fault.is(FaultAction::async_error)) {
      const Lock lock(machine().mutex);
      batch.comm->state = static_cast<ncclResult_t>(task.fault.value);
    }
    if (task.fault.is(FaultAction::async_error) || task.fault.is(FaultAction::never_finish)) {
      endpoint.wait_until_stopped();
      return;
    }
    runners.emplace_back(task, numbers[i], op);
  }
  for (std::size_t i = 0; i < runners.size(); ++i) {
    if (is_message(batch.tasks[i].call.kind)) runners[i].start_message();
  }
  for (std::size_t i = 0; i < runners.size(); ++i) {
    if (!is_message(batch.tasks[i].call.kind) && !runners[i].run_collective()) return;
  }
  for (std::size_t i = 0; i < runners.size(); ++i) {
    if (is_message(batch.tasks[i].call.kind) && !runners[i].finish_message()) return;
  }
}

}  // namespace comm::simulated::detail
