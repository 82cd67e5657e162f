#pragma once

/// One operation on a stream, from its submission until it is done, and what orders it: its place
/// in its stream, the operations it waits for, and a vector clock that says which operations of
/// which streams are certainly over before it starts. All fields belong to the machine's mutex,
/// but for what `run` works on while it runs.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace comm::simulated::detail {

struct Stream;
struct Operation;
using OperationPtr = std::shared_ptr<Operation>;

/// Bytes that an operation reads or writes.
struct Access {
  std::uintptr_t begin = 0;
  std::size_t size = 0;
  bool writes = false;
};

inline Access reads(const void* pointer, std::size_t size) {
  return {reinterpret_cast<std::uintptr_t>(pointer), size, false};
}
inline Access writes(const void* pointer, std::size_t size) {
  return {reinterpret_cast<std::uintptr_t>(pointer), size, true};
}

/// For each stream, by its identity, the last operation known to be over.
class Clock {
 public:
  std::uint64_t at(std::uint64_t stream) const;
  void advance(std::uint64_t stream, std::uint64_t index);
  void merge(const Clock& other);
  void forget(std::uint64_t stream);

 private:
  std::vector<std::pair<std::uint64_t, std::uint64_t>> entries_;  // Sorted by stream.
};

/// How the host may meet an operation that is not held back.
enum class Pace {
  inline_run,  // runs on the submitting thread when nothing is before it
  awaited,     // the submitting thread gives its worker a moment; it may be user code that blocks
  background,  // waits for peers or runs user code: only ever on the worker
};

/// What an operation waits for beside its stream's order. Programs may rely on the promised ones;
/// the others only happen, as when NCCL keeps the operations of one communicator in order.
struct Waits {
  std::vector<OperationPtr> promised;
  std::vector<OperationPtr> unpromised;
};

/// What is submitted. `prepare`, if set, is called under the mutex when the operation is really
/// put on a stream (also by a graph launch, each time anew), may add operations to wait for, and
/// returns what to run; `enqueued` is called after that with the operation.
struct Submission {
  using Run = std::function<void(Operation&)>;

  std::string what;
  Run run;
  std::vector<Access> accesses;
  Waits waits;
  Pace pace = Pace::inline_run;
  bool host_sees_completion = false;  // A host function, say: what follows it on the host is after.
  bool is_marker = false;             // Never held back: it only stands for what is before it.
  bool is_collective = false;
  int delay_ms = 0;
  bool never_finishes = false;
  std::function<Run(Waits&)> prepare;
  std::function<void(const OperationPtr&)> enqueued;
  std::shared_ptr<void> keep;  // Alive as long as the operation or the graph that holds it.
};

struct Operation {
  enum class State { queued, running, done };

  std::string what;
  Submission::Run run;
  std::vector<Access> accesses;
  std::vector<OperationPtr> waits;
  std::vector<Stream*> dependents;
  std::shared_ptr<void> keep;
  Stream* stream = nullptr;  // Not to be followed once done.
  std::uint64_t stream_id = 0;
  std::string stream_name;
  std::uint64_t index = 0;
  Clock clock;
  State state = State::queued;
  bool held = false;
  bool forced = false;
  bool is_marker = false;
  bool host_sees_completion = false;
  bool never_finishes = false;
  int delay_ms = 0;
  std::int64_t submitted_ns = 0;
  std::int64_t done_ns = 0;

  bool done() const { return state == State::done; }
  bool before(const Clock& other) const { return index <= other.at(stream_id); }
};

}  // namespace comm::simulated::detail
