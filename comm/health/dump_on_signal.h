#pragma once

/// `DumpOnSignal` makes a signal of the engine's choice dump a flight recorder, for as long as the
/// object lives: an operator sends it to ranks that hang, and `//comm:comm_trace` reads what they
/// wrote.
///
///     auto guard = comm::DumpOnSignal::install(SIGUSR2, comm::recorder_of(communicator));
///     if (!guard.ok()) return fail(guard.message());
///
/// The handler only counts and wakes: a thread of this object, asleep until then, makes the dump.
/// (A handler may neither allocate nor take the locks that a dump takes, and signalfd would need the
/// signal blocked in every thread, also those of libraries.) The dump goes where the recorder's
/// options say. Several may be installed for one signal; each dumps its recorder. The signal's
/// disposition must be the default or to ignore it, and is put back with the last object.
///
/// Thread safety: install and destroy from any thread. In the child of a fork nothing is dumped.

#include <memory>

#include "comm/health/flight_recorder.h"
#include "comm/result.h"

namespace comm {

class DumpOnSignal {
 public:
  /// Refuses a signal that has a handler, that cannot have one or that a fault raises, and a recorder
  /// that has nowhere to dump to.
  static Result<DumpOnSignal> install(int signal, FlightRecorder recorder);

  DumpOnSignal(DumpOnSignal&&) noexcept;
  DumpOnSignal& operator=(DumpOnSignal&&) noexcept;
  /// Waits for a dump under way, but not for long: one that a dead file system holds goes on alone.
  ~DumpOnSignal();

 private:
  struct Waiter;
  explicit DumpOnSignal(std::unique_ptr<Waiter> waiter) noexcept;

  std::unique_ptr<Waiter> waiter_;
};

}  // namespace comm
