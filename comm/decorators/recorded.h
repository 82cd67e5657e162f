#pragma once

/// `Recorded<B>` is a flight recorder: it remembers the last submissions to `B` (1024, unless
/// COMM_RECORDER_ENTRIES says otherwise) with sequence number, epoch, operation, type, count,
/// reduction, peer or root, stream, when each was submitted and seen complete, and what came of it.
/// An operation that is under way is there as started and not complete: that is what to look at in a
/// hang. On the first failure the lot is written to a JSON file in COMM_RECORDER_DIR, if that is set.
///
///     using Recorded = comm::Recorded<comm::Nccl>;
///     auto made = comm::Communicator<Recorded>::create();
///     comm::FlightRecorder recorder = comm::recorder_of(*made);        // to dump on demand
///     auto guard = comm::DumpOnSignal::install(SIGUSR2, recorder);     // dump_on_signal.h
///
/// Seen complete: where `B` is done when it returns (its ticket is `CompletedTicket`, as Host's), on
/// return, and in a group when the group ends; otherwise when an operation that waits for the same
/// stream returns without an error (synchronize, broadcast, recv_command_u32, barrier_wait). A ticket
/// counts for the communicator's own stream, and for `compute` once it was joined to it. Waits that
/// comm does not make (cudaStreamSynchronize) are not seen.
///
/// Cost: no lock, no allocation, no virtual call; docs/flight-recorder.md has the instructions. Over a
/// backend that moves no data it is nothing at all. Memory: 64 bytes an entry.
///
/// Threads: as the backend's; it adds no thread and no order of its own.

#include <bit>
#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "comm/backend_defaults.h"
#include "comm/decorator.h"
#include "comm/decorators/recorded_state.h"
#include "comm/health/flight_recorder.h"

namespace comm {

template <Backend B>
class Recorded : public Decorator<Recorded<B>, B> {
  using Base = Decorator<Recorded, B>;
  using State =
      std::conditional_t<B::moves_data, detail::RecorderState, detail::NoRecorderState<B>>;
  static constexpr bool kCompletesOnReturn = std::same_as<typename B::Ticket, CompletedTicket>;

 public:
  using Ticket = std::conditional_t<B::moves_data && !kCompletesOnReturn,
                                    detail::RecordedTicket<typename B::Ticket>, typename B::Ticket>;

  /// As the environment says; what it says wrongly is as if it said nothing.
  constexpr explicit Recorded(B inner) noexcept
      : Base(std::move(inner)), state_(this->inner(), kCompletesOnReturn) {}
  /// Wrong options are as if they were not given; `RecorderOptions::complete_from_env` checks them.
  Recorded(B inner, RecorderOptions options) noexcept
      : Base(std::move(inner)), state_(this->inner(), kCompletesOnReturn, std::move(options)) {}

  /// As the backend's, and refuses what the environment says wrongly.
  template <Creatable C = B>
  static constexpr Result<Recorded> create(const typename C::Config& config) {
    if constexpr (B::moves_data) {
      Status sound = RecorderOptions().complete_from_env();
      if (!sound.ok()) return sound;
    }
    Result<B> inner = B::create(config);
    if (!inner.ok()) return std::move(inner).status();
    return Recorded(std::move(*inner));
  }

  /// The handle to dump by; of nothing where no data moves.
  FlightRecorder recorder() const { return state_.recorder(); }

  template <class Op, class Next>
  [[gnu::always_inline]] auto around(const Op& op, Next next) {
    std::uint64_t sequence = 0;
    return run(op, next, sequence);
  }

  /// As `around` does it, in as little code as can be, so that it is inlined where Nccl's own is.
  [[gnu::always_inline]] constexpr Status all_reduce(const ops::AllReduce& op) {
    if constexpr (B::moves_data && !kCompletesOnReturn) {
      detail::RecorderRing* ring = state_.ring().get();
      const std::uint64_t sequence = detail::RecorderRing::begin_collective(
          ring, detail::recorded_what(op), op.count, detail::recorded_stream(op),
          std::bit_cast<std::uint64_t>(op.op.factor()));
      Status outcome = this->inner().all_reduce(op);
      if (!outcome.ok()) [[unlikely]]
        return all_reduce_failed(sequence, std::move(outcome));
      detail::RecorderRing::returned(ring, sequence);
      return {};
    } else {
      return Base::all_reduce(op);
    }
  }

  constexpr Result<Ticket> all_reduce_deferred(const ops::AllReduceDeferred& op) {
    if constexpr (std::same_as<Ticket, typename B::Ticket>) {
      return Base::all_reduce_deferred(op);
    } else {
      std::uint64_t sequence = 0;
      auto made = run(
          op, [&] { return this->inner().all_reduce_deferred(op); }, sequence);
      if (!made.ok()) return std::move(made).status();
      return Ticket(std::move(*made), state_.ring(), sequence);
    }
  }

  [[gnu::always_inline]] constexpr Result<Recorded> split(const ops::Split& op) {
    if constexpr (!B::moves_data) return Base::split(op);
    return divided(op, [&] { return this->inner().split(op); });
  }
  [[gnu::always_inline]] constexpr Result<Recorded> shrink(const ops::Shrink& op) {
    if constexpr (!B::moves_data) return Base::shrink(op);
    return divided(op, [&] { return this->inner().shrink(op); });
  }

  constexpr Status attempt_reconnect(const ops::AttemptReconnect& op) {
    Status outcome = Base::attempt_reconnect(op);
    if constexpr (B::moves_data) {
      if (outcome.ok()) state_.rebuilt(this->inner());
    }
    return outcome;
  }

  constexpr Status abort(const ops::Abort& op) {
    if constexpr (B::moves_data) {
      return around(op, [&] { return this->inner().abort(op); });
    } else {
      return Base::abort(op);
    }
  }

 private:
  Recorded(B inner, const State& parent, const std::string& name) noexcept
      : Base(std::move(inner)),
        state_(this->inner(), kCompletesOnReturn, parent.options_for(name)) {}

  template <class Op, class Next>
  [[gnu::always_inline]] auto run(const Op& op, Next next, std::uint64_t& sequence)
      -> decltype(next()) {
    detail::RecorderRing* ring = state_.ring().get();
    sequence = detail::record_begin(ring, op, this->world_size());
    auto outcome = next();
    if (outcome.ok()) [[likely]]
      detail::record_return<Op, kCompletesOnReturn>(ring, op, sequence);
    else
      detail::record_failure(ring, Op::operation, sequence, detail::status_of(outcome),
                             this->is_healthy());
    return outcome;
  }

  [[gnu::cold, gnu::noinline]] Status all_reduce_failed(std::uint64_t sequence, Status outcome) {
    detail::record_failure(state_.ring().get(), Operation::all_reduce, sequence, outcome,
                           this->is_healthy());
    return outcome;
  }

  template <class Op, class Next>
  [[gnu::always_inline]] constexpr Result<Recorded> divided(const Op& op, Next next) {
    if constexpr (B::moves_data) {
      std::uint64_t sequence = 0;
      Result<B> made = run(op, next, sequence);
      if (!made.ok()) return std::move(made).status();
      if (sequence == 0) return Recorded(std::move(*made));  // No memory to record in.
      return Recorded(std::move(*made), state_, detail::name_of_part(op, *state_.ring(), sequence));
    } else {
      Result<B> made = next();
      if (!made.ok()) return std::move(made).status();
      return Recorded(std::move(*made));
    }
  }

  [[no_unique_address]] State state_;
};

template <class B>
Recorded(B) -> Recorded<B>;
template <class B>
Recorded(B, RecorderOptions) -> Recorded<B>;

/// The recorder of a communicator or backend, however many decorators are around it; of nothing where
/// there is none.
template <class C>
FlightRecorder recorder_of(const C& c) {
  if constexpr (requires { c.recorder(); }) {
    return c.recorder();
  } else if constexpr (requires { c.backend(); }) {
    return recorder_of(c.backend());
  } else if constexpr (requires { c.inner(); }) {
    return recorder_of(c.inner());
  } else {
    return {};
  }
}

}  // namespace comm
