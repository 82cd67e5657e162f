#pragma once

/// What a flight recorder keeps of an operation: `recorded_words(op)` packs it, and what is known of
/// the kind of operation alone is a table here, for the recorder and for those who read its dumps.

#include <bit>
#include <cstddef>
#include <cstdint>

#include "comm/health/recorder_ring.h"
#include "comm/operations.h"

namespace comm::detail {

/// All ranks call it, in one order: it has a number among the epoch's collectives.
constexpr bool is_collective(Operation operation) {
  return operation <= Operation::all_to_all_v || operation == Operation::barrier ||
         operation == Operation::barrier_wait || operation == Operation::symmetric_alloc ||
         operation == Operation::split;
}

constexpr bool moves_elements(Operation operation) {
  return operation <= Operation::send_recv;
}

/// It is ordered on a stream: the one given or the communicator's own.
constexpr bool is_on_stream(Operation operation) {
  return operation <= Operation::barrier_wait || operation == Operation::synchronize;
}

/// When it returns without an error, all that came before on its stream is done.
constexpr bool waits_for_stream(Operation operation) {
  return operation == Operation::broadcast || operation == Operation::recv_command_u32 ||
         operation == Operation::barrier_wait || operation == Operation::synchronize;
}

constexpr bool has_root(Operation operation) {
  return operation == Operation::broadcast || operation == Operation::broadcast_async ||
         operation == Operation::recv_command_u32 || operation == Operation::reduce ||
         operation == Operation::gather || operation == Operation::scatter;
}

/// In place of a reduction, where there is none.
inline constexpr std::uint64_t kNoReduction = 0xff;

/// `RecordedWords::what`, but for what the ring puts in.
template <class Op>
[[gnu::always_inline]] constexpr std::uint64_t recorded_what(const Op& op) {
  constexpr Operation kOperation = Op::operation;
  std::uint64_t what = static_cast<std::uint64_t>(kOperation);
  if constexpr (is_collective(kOperation))
    what |= RecorderRing::kCollective << RecorderRing::kFlagsShift;
  if constexpr (requires { op.type; })
    what |= static_cast<std::uint64_t>(op.type) << 8;
  else if constexpr (kOperation == Operation::recv_command_u32)
    what |= static_cast<std::uint64_t>(DataType::u32) << 8;
  if constexpr (requires { op.op; })
    what |= static_cast<std::uint64_t>(op.op.kind()) << 16;
  else
    what |= kNoReduction << 16;
  // A deferred one's is the communicator's own until the ticket is joined.
  if constexpr (kOperation != Operation::all_reduce_deferred && requires { op.stream; })
    what |= static_cast<std::uint64_t>(op.stream.is_given()) << RecorderRing::kFlagsShift;
  int partner = -1;
  if constexpr (requires { op.root; }) partner = op.root;
  if constexpr (requires { op.peer; }) partner = op.peer;
  if constexpr (requires { op.dest; }) partner = op.dest;
  if constexpr (requires { op.color; }) partner = op.color;
  return what | static_cast<std::uint64_t>(static_cast<std::uint32_t>(partner)) << 32;
}

/// Null where none is given.
template <class Op>
[[gnu::always_inline]] constexpr std::uint64_t recorded_stream(const Op& op) {
  if constexpr (Op::operation != Operation::all_reduce_deferred && requires { op.stream; })
    return reinterpret_cast<std::uintptr_t>(op.stream.get());
  else
    return 0;
}

template <class Op>
constexpr RecordedWords recorded_words(const Op& op, [[maybe_unused]] int world_size) {
  constexpr Operation kOperation = Op::operation;
  RecordedWords words;
  words.what = recorded_what(op);
  words.stream = recorded_stream(op);
  words.count = info_of(op).count;
  if constexpr (requires { op.op; }) words.extra = std::bit_cast<std::uint64_t>(op.op.factor());
  if constexpr (kOperation == Operation::split) words.extra = static_cast<std::uint64_t>(op.key);
  if constexpr (kOperation == Operation::shrink) words.count = op.excluded_count;
  if constexpr (kOperation == Operation::send_recv) {
    words.extra = op.recv_count;
    words.source = static_cast<std::uint32_t>(op.source);
  }
  if constexpr (kOperation == Operation::all_to_all_v) {
    for (int i = 0; i < world_size; ++i) {
      words.count += op.send_counts[i];
      words.extra += op.recv_counts[i];
    }
  }
  return words;
}

// And out again.
constexpr Operation operation_of(const RecordedWords& words) {
  return static_cast<Operation>(words.what & 0xff);
}
constexpr DataType type_of(const RecordedWords& words) {
  return static_cast<DataType>(words.what >> 8 & 0xff);
}
constexpr bool has_reduction(const RecordedWords& words) {
  return (words.what >> 16 & 0xff) != kNoReduction;
}
constexpr const char* reduction_name(const RecordedWords& words) {
  switch (static_cast<ReduceOp::Kind>(words.what >> 16 & 0xff)) {
    case ReduceOp::Kind::sum: return to_string(ReduceOp::sum);
    case ReduceOp::Kind::prod: return to_string(ReduceOp::prod);
    case ReduceOp::Kind::min: return to_string(ReduceOp::min);
    case ReduceOp::Kind::max: return to_string(ReduceOp::max);
    case ReduceOp::Kind::avg: return to_string(ReduceOp::avg);
    case ReduceOp::Kind::premul_sum: return "premul_sum";
  }
  return "unknown";
}
constexpr bool flag_of(const RecordedWords& words, std::uint64_t flag) {
  return (words.what >> RecorderRing::kFlagsShift & flag) != 0;
}
constexpr int partner_of(const RecordedWords& words) {
  return static_cast<int>(words.what >> 32);
}

}  // namespace comm::detail
