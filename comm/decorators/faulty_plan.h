#pragma once

/// `FaultPlan` says what shall go wrong, for `Faulty`: faults at calls of named operations, counted by
/// each communicator, or faults at random from a seed.
///
///     comm::FaultPlan plan;
///     plan.add({.operation = comm::Operation::all_reduce, .nth = 3, .rank = 1,
///               .action = comm::FaultAction::fail, .code = comm::StatusCode::timeout});
///     auto same = comm::FaultPlan::parse("all_reduce@3,rank=1:fail=timeout");
///
/// As text, a fault is `operation[@nth][,rank=N]:action[=value]`, and faults are separated by
/// semicolons; the operation is spelled as on the face, or `any`. `random[=seed][,rate=N][,rank=N]`
/// is a fault at N of 1000 calls. A fault fires once, at the nth call (1, where none is given, is the
/// next); nth 0 fires at every call. Thread safety: none.

#include <cstdint>
#include <vector>

#include "comm/operations.h"
#include "comm/result.h"

namespace comm {

enum class FaultAction : std::uint8_t {
  fail,    ///< The call answers with `code`; the backend is not asked.
  delay,   ///< The call begins `value` milliseconds late.
  skip,    ///< The call answers ok and does nothing: this rank does not come.
  flip,    ///< Bit `value` of the result is wrong. In host memory, outside of groups.
  poison,  ///< The communicator becomes unhealthy before the call.
  kill,    ///< SIGKILL to this process.
};

const char* to_string(FaultAction action) noexcept;

struct Fault {
  Operation operation = Operation::all_reduce;
  bool any = false;  ///< Any operation, whatever `operation` says.
  int nth = 1;
  int rank = -1;  ///< -1: any.
  FaultAction action = FaultAction::fail;
  StatusCode code = StatusCode::internal;  ///< Of `fail`.
  std::int64_t value = 0;
};

class FaultPlan {
 public:
  void add(const Fault& fault) { faults_.push_back({fault}); }
  /// Fails, delays and skips `per_mille` of 1000 calls. The same seed, rank and calls: the same.
  void add_random(std::uint64_t seed, int per_mille = 10, int rank = -1);

  /// The error names the words that were not understood, and what would be.
  static Result<FaultPlan> parse(const char* text);
  /// COMM_FAULTS; none where it is not set.
  static Result<FaultPlan> from_env();

  bool is_empty() const { return faults_.empty() && random_per_mille_ == 0; }
  bool has(FaultAction action) const;
  bool is_random() const { return random_per_mille_ != 0; }
  std::uint64_t seed() const { return seed_; }
  int per_mille() const { return random_per_mille_; }

  /// What shall happen to this call; false: nothing.
  bool take(Operation operation, int rank, Fault& fault);
  /// The same plan before any call.
  FaultPlan fresh() const;

 private:
  struct Pending {
    Fault fault;
    int seen = 0;
    bool has_fired = false;
  };

  Status add_text(const char* begin, const char* end);

  std::vector<Pending> faults_;
  std::uint64_t seed_ = 0;
  std::uint64_t calls_ = 0;
  int random_per_mille_ = 0;
  int random_rank_ = -1;
};

}  // namespace comm
