#pragma once

/// `Faulty<B>` makes calls go wrong on purpose, so that an engine can test what it does then: they
/// fail, come late, are left out, give a wrong result, or find the communicator unhealthy. What and
/// when is a `FaultPlan`, given here or by COMM_FAULTS (faulty_plan.h has the grammar).
///
///     COMM_FAULTS="all_reduce@3,rank=1:skip;any@0:delay=2"        // rank 1 leaves out its third
///     comm::Communicator<comm::Faulty<comm::Host>> c{comm::Faulty(std::move(host), plan)};
///
/// Each fault is said in the log (part `faulty`, level warn), and the seed of random ones, with which
/// they come again. A malformed COMM_FAULTS fails `create`. What is split off has the same plan, from
/// its start. Without a plan it costs a branch a call; over a backend that moves no data it is
/// nothing. For tests: no --config puts it into an engine.
///
/// Threads: as the backend's; with a plan, calls from one thread at a time.

#include <concepts>
#include <type_traits>
#include <utility>

#include "comm/decorator.h"
#include "comm/decorators/faulty_plan.h"
#include "comm/log.h"

namespace comm {

namespace detail {

/// The buffer in which a call has its result, on a rank that gets one; null: none.
template <class Op>
void* result_of(const Op& op, [[maybe_unused]] int rank) {
  constexpr Operation kOperation = Op::operation;
  constexpr bool kReadsOnly = kOperation == Operation::send_to ||
                              kOperation == Operation::register_buffer ||
                              kOperation == Operation::symmetric_free;
  if constexpr (kOperation == Operation::reduce || kOperation == Operation::gather)
    if (op.root != rank) return nullptr;
  if constexpr (requires { op.recv; }) return op.recv;
  if constexpr (!kReadsOnly && requires { op.buffer; }) return op.buffer;
  return nullptr;
}

class FaultState {
 public:
  /// COMM_FAULTS; `refusal()` where it cannot be read.
  FaultState();
  explicit FaultState(FaultPlan plan) : plan_(std::move(plan)) {}

  bool is_idle() const { return plan_.is_empty() && refusal_.ok(); }
  Status refusal(Operation operation, bool uses_host_memory) const;

  /// Says what was drawn; `settings` and `source` are whose log it is.
  [[gnu::cold]] bool take(Operation operation, const LogSettings& settings, const LogSource& source,
                          Fault& fault);

  const FaultPlan& plan() const { return plan_; }

 private:
  FaultPlan plan_;
  Status refusal_;
  bool is_announced_ = false;
};

/// What a fault does by itself: waits, or ends the process.
[[gnu::cold]] void perform_fault(const Fault& fault);
[[gnu::cold]] Status fault_error(const Fault& fault, Operation operation, int rank, int size);
[[gnu::cold]] void flip_bit(void* memory, std::size_t bytes, std::int64_t bit);

template <class B>
struct NoFaultState {
  constexpr NoFaultState() = default;
  constexpr explicit NoFaultState(const FaultPlan&) {}
};

}  // namespace detail

template <Backend B>
class Faulty : public Decorator<Faulty<B>, B> {
  using Base = Decorator<Faulty, B>;
  using State = std::conditional_t<B::moves_data, detail::FaultState, detail::NoFaultState<B>>;

 public:
  /// As COMM_FAULTS says.
  constexpr explicit Faulty(B inner) : Base(std::move(inner)) {}
  constexpr Faulty(B inner, FaultPlan plan) : Base(std::move(inner)), state_(std::move(plan)) {}

  template <class Op, class Next>
  auto around(const Op& op, Next next) -> decltype(next()) {
    if (state_.is_idle()) [[likely]]
      return next();
    return with_faults(op, next);
  }

  constexpr Faulty wrap(B inner) const {
    if constexpr (B::moves_data)
      return Faulty(std::move(inner), state_.plan().fresh());
    else
      return Faulty(std::move(inner));
  }

  static constexpr auto create(const auto& config) requires Creatable<B> {
    if constexpr (B::moves_data) {
      Result<FaultPlan> plan = FaultPlan::from_env();
      if (!plan.ok()) return Result<Faulty>(std::move(plan).status());
    }
    return Base::create(config);
  }

 private:
  template <class Op, class Next>
  auto with_faults(const Op& op, Next next) -> decltype(next()) {
    using Outcome = decltype(next());
    constexpr Operation kOperation = Op::operation;
    const int rank = this->rank(), size = this->world_size();
    if (Status bad = state_.refusal(kOperation, UsesHostMemory<B>); !bad.ok()) return bad;
    Fault fault;
    const LogSource source{rank, size, this->epoch()};
    if (!state_.take(kOperation, log_settings_of(this->inner()), source, fault)) return next();
    detail::perform_fault(fault);
    if (fault.action == FaultAction::delay) return next();
    if (fault.action == FaultAction::flip) {
      auto outcome = next();
      const OperationInfo info = info_of(op);
      if (outcome.ok())
        detail::flip_bit(detail::result_of(op, rank), info.count * size_of(info.type), fault.value);
      return outcome;
    }
    Status error = detail::fault_error(fault, kOperation, rank, size);
    if (fault.action == FaultAction::poison) return poison(kOperation, error);
    if constexpr (std::same_as<Outcome, Status>)
      if (fault.action == FaultAction::skip) return Status();
    return error;
  }

  Status poison(Operation operation, const Status& cause) {
    if constexpr (HasAgreement<B>) {
      return this->inner().declare_unhealthy(operation, cause);
    } else {
      this->inner().abort({}).ignore();
      return cause.copy();
    }
  }

  [[no_unique_address]] State state_;
};

template <class B>
Faulty(B) -> Faulty<B>;
template <class B>
Faulty(B, FaultPlan) -> Faulty<B>;

}  // namespace comm
