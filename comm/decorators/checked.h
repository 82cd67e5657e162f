#pragma once

/// `Checked<B>` compares what the ranks are about to do before any of them does it: a fingerprint of
/// each collective goes to all ranks beside the data path, and where two differ, every rank gets an
/// error that shows all sides, nothing is submitted, and the communicator is unhealthy. Without it
/// such a mistake is a hang, or data that is wrong.
///
///     comm::Communicator<comm::Checked<comm::Host>> c = …;
///     // mismatch: all_reduce on rank 0 of 3: ranks make different calls at seq 17:
///     //   rank 0, 2: all_reduce(f32, 1000 elements, sum); rank 1: all_reduce(f32, 999 elements, sum)
///
/// Compared: the order of calls, operation, type, count, reduction, root, whether and where in a group,
/// the order and sizes of registrations so far, and for `all_to_all_v` whether each count sent is the
/// count expected. A rank that does not come is named at the deadline of collectives. Not compared:
/// `send_to`, `recv_from` and `send_recv`, which concern two ranks and count for no others; streams;
/// addresses; what a captured graph does when it is replayed (its capture is compared). Which of its
/// forms an operation takes (`_async`, `_deferred`, `recv_command_u32` for `broadcast`) is each rank's
/// own matter. What `split` and `shrink` make is compared as soon as it is made.
///
/// Cost: the host waits for all ranks at every collective; docs/decorators.md has figures. Needs
/// `HasAgreement` of a backend that moves data. Over one that moves none it is nothing.
///
/// Threads: as the backend's, but collectives from one thread at a time: ranks could not agree on an
/// order that threads race for.

#include <cstdint>
#include <type_traits>
#include <utility>

#include "comm/decorator.h"
#include "comm/decorators/checked_calls.h"

namespace comm {

template <Backend B>
class Checked : public Decorator<Checked<B>, B> {
  using Base = Decorator<Checked, B>;
  using Calls = std::conditional_t<B::moves_data, detail::CheckedCalls, detail::NoCheckedCalls<B>>;

  static_assert(
      !B::moves_data || HasAgreement<B>,
      "comm::Checked<B>: ranks compare their calls beside the data path, and B has no way "
      "to do that; give it exchange() and declare_unhealthy() (HasAgreement in "
      "comm/backend.h), or do without Checked");

 public:
  constexpr explicit Checked(B inner) : Base(std::move(inner)) {}

  template <class Op, class Next>
  auto around(const Op& op, Next next) -> decltype(next()) {
    constexpr Operation kOperation = Op::operation;
    if constexpr (detail::is_compared(kOperation)) {
      // The root's refusal to receive a command is no call.
      if (kOperation != Operation::recv_command_u32 || !is_root(op)) {
        Status agreed = agree(op);
        if (!agreed.ok()) return agreed;
      }
      return next();
    } else if constexpr (kOperation == Operation::group_start) {
      auto outcome = next();
      if (outcome.ok()) calls_.open_group();
      return outcome;
    } else if constexpr (kOperation == Operation::group_end) {
      // All ranks are at the end of the same calls; it reaches the backend whatever they are.
      Status agreed = calls_.ends_calls() ? agree(op) : Status();
      calls_.close_group();
      auto outcome = next();
      return agreed.ok() ? std::move(outcome) : std::move(agreed);
    } else if constexpr (kOperation == Operation::attempt_reconnect) {
      const std::uint64_t before = this->epoch();
      auto outcome = next();
      if (this->epoch() != before) calls_ = Calls();
      return outcome;
    } else {
      auto outcome = next();
      if (outcome.ok()) calls_.note(op);
      return outcome;
    }
  }

  /// The ranks that were put together compare how they came to be.
  [[gnu::always_inline]] constexpr Result<Checked> split(const ops::Split& op) {
    return agreed(op, Base::split(op));
  }
  [[gnu::always_inline]] constexpr Result<Checked> shrink(const ops::Shrink& op) {
    return agreed(op, Base::shrink(op));
  }

 private:
  template <class Op>
  bool is_root(const Op& op) const {
    if constexpr (requires { op.root; }) return op.root == this->rank();
    return false;
  }

  template <class Op>
  Status agree(const Op& op) {
    return calls_.compare(calls_.next(op, this->rank(), this->world_size()), detail::counts_of(op),
                          Op::operation, detail::Ranks::of(this->inner()));
  }

  template <class Op>
  [[gnu::always_inline]] constexpr Result<Checked> agreed(const Op& op, Result<Checked> made) {
    if constexpr (B::moves_data) {
      if (!made.ok() || made->rank() < 0) return made;
      Status same = made->calls_.compare(calls_.origin(op), {}, Op::operation,
                                         detail::Ranks::of(made->inner()));
      if (!same.ok()) return same;
    }
    return made;
  }

  [[no_unique_address]] Calls calls_;
};

template <class B>
Checked(B) -> Checked<B>;

}  // namespace comm
