#pragma once

/// `CheckedCalls` is what `Checked` knows of the calls of one rank, and how it compares them with the
/// other ranks'. A `Fingerprint` is one call, small enough for one exchange.
///
/// Thread safety: none.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/backend.h"
#include "comm/operations.h"
#include "comm/status.h"

namespace comm::detail {

/// All but `extra` must be equal on all ranks.
struct Fingerprint {
  std::uint32_t sequence = 0;       ///< Of the compared calls, from 1.
  std::uint32_t place = 0;          ///< Among those of an open group, from 1; 0: no group.
  std::uint64_t count = 0;          ///< Elements, or bytes.
  std::uint64_t registrations = 0;  ///< How many so far, above a digest of their order and sizes.
  std::uint64_t excluded = 0;       ///< Of a shrink: a digest of who left.
  std::int32_t root = -1;           ///< split: the color.
  Operation operation{};            ///< The form that stands for all forms of it.
  DataType type = DataType::u8;
  std::uint8_t reduction = 0;  ///< 1 + its kind; 0: none.
  std::uint8_t reserved = 0;
  std::uint64_t extra = 0;  ///< all_to_all_v: a digest of counts, to be added up. split: the key.

  bool fits(const Fingerprint& other) const;
};
static_assert(sizeof(Fingerprint) == kMaxExchangedBytes);

/// What is compared before it is submitted.
constexpr bool is_compared(Operation operation) {
  if (operation == Operation::send_to || operation == Operation::recv_from ||
      operation == Operation::send_recv)
    return false;
  return operation <= Operation::barrier_wait || operation == Operation::symmetric_alloc ||
         operation == Operation::split;
}

/// One operation has several forms, and ranks may choose each its own.
constexpr Operation one_form_of(Operation operation) {
  switch (operation) {
    case Operation::all_reduce_async:
    case Operation::all_reduce_deferred: return Operation::all_reduce;
    case Operation::broadcast_async:
    case Operation::recv_command_u32: return Operation::broadcast;
    case Operation::barrier_wait: return Operation::barrier;
    default: return operation;
  }
}

/// Of all_to_all_v, else null: `world_size` each.
struct Counts {
  const std::size_t* send = nullptr;
  const std::size_t* recv = nullptr;
};

template <class Op>
constexpr Counts counts_of(const Op& op) {
  if constexpr (requires { op.send_counts; })
    return {op.send_counts, op.recv_counts};
  else
    return {};
}

/// The ranks, through whichever backend has them.
struct Ranks {
  int rank;
  int size;
  std::uint64_t epoch;
  void* backend;
  Status (*exchange)(void* backend, const Exchange& exchange);
  Status (*declare_unhealthy)(void* backend, Operation operation, const Status& cause);

  template <class B>
  static Ranks of(B& backend) {
    return {
        backend.rank(),
        backend.world_size(),
        backend.epoch(),
        &backend,
        [](void* b, const Exchange& exchange) { return static_cast<B*>(b)->exchange(exchange); },
        [](void* b, Operation operation, const Status& cause) {
          return static_cast<B*>(b)->declare_unhealthy(operation, cause);
        }};
  }
};

class CheckedCalls {
 public:
  /// The fingerprint of a call that is about to be compared.
  template <class Op>
  Fingerprint next(const Op& op, int rank, int size) {
    const OperationInfo info = info_of(op);
    Fingerprint f;
    f.sequence = ++sequence_;
    f.place = depth_ > 0 ? ++place_ : 0;
    f.count = info.count;
    f.registrations = registrations_;
    f.root = info.root;
    f.operation = one_form_of(Op::operation);
    f.type = info.type;
    // The factor of a pre-multiplied sum is each rank's own.
    if (info.reduces) f.reduction = static_cast<std::uint8_t>(1 + static_cast<int>(info.op.kind()));
    if constexpr (requires { op.send_counts; }) f.extra = digest(counts_of(op), rank, size);
    return f;
  }

  /// How a communicator that was made from this one came to be.
  Fingerprint origin(const ops::Split& op) const {
    Fingerprint f;
    f.sequence = sequence_;
    f.operation = Operation::split;
    f.root = op.color;
    f.extra = static_cast<std::uint32_t>(op.key);
    return f;
  }
  Fingerprint origin(const ops::Shrink& op) const;

  /// Ok where all ranks are about to make this call.
  Status compare(const Fingerprint& mine, const Counts& counts, Operation operation,
                 const Ranks& ranks);

  void open_group() {
    if (depth_++ == 0) place_ = 0;
  }
  /// Whether a group_end now is the end of a group with compared calls.
  bool ends_calls() const { return depth_ == 1 && place_ > 0; }
  void close_group() {
    if (depth_ > 0) --depth_;
  }

  void note(const ops::RegisterBuffer& op) { add_registration(op.bytes); }
  void note(const ops::DeregisterBuffer& op) { add_registration(~op.handle); }
  void note(const ops::SymmetricFree&) { add_registration(~std::uint64_t{0} >> 1); }
  template <class Op>
  void note(const Op&) {}

 private:
  static std::uint64_t digest(const Counts& counts, int rank, int size);
  void add_registration(std::uint64_t what);

  std::uint32_t sequence_ = 0;
  std::uint32_t place_ = 0;
  std::uint64_t registrations_ = 0;
  int depth_ = 0;
  std::vector<Fingerprint> all_;
};

/// Stands for that where nothing is compared. One type for each `B`, so that it takes no byte.
template <class B>
struct NoCheckedCalls {};

}  // namespace comm::detail
