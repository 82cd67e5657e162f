#pragma once

/// What the simulated machine is: how many devices it has, how long it may hold work back, and the
/// seed from which every scheduling decision is drawn. Settings come from the environment when the
/// process first touches the simulation, and a test may change them between its cases.
///
/// A decision depends on the seed, the device, the stream's place among the device's streams and
/// the operation's place in its stream, and on nothing else: not on the clock and not on how the
/// host's threads interleave. The same seed therefore holds back the same operations in each run.
///
///     COMM_SIM_SEED=7            replay that schedule; "random" draws one; default 1
///     COMM_SIM_DEVICES=4         default 8; 0: cudaErrorNoDevice; "none": no driver
///     COMM_SIM_MAX_HOLD_MS=100   work that nobody waits for starts after so long
///     COMM_SIM_STRICT=report     "abort": at the first violation; "fail": exit status 86 at the end
///     COMM_SIM_PEER_DEATH=silent "error": a dead peer shows as ncclRemoteError (as over a network)
///
/// All functions may be called from any thread.

#include <cstdint>

#include "comm/language.h"

namespace comm::simulated {

enum class Strict { report, fail, abort };

struct Settings {
  std::uint64_t seed = 1;
  int devices = 8;
  bool has_driver = true;
  int compute_capability = 90;  // 10 * major + minor
  int max_hold_ms = 100;
  Strict strict = Strict::report;
  bool peer_death_is_an_error = false;
  // One collective kernel at a time on a device, in the order of issue: CUDA promises no more.
  bool serialize_communicators = true;
  // The first operation with a peer blocks the host until the peer issues its own, as NCCL's lazy
  // connection does (NCCL_RUNTIME_CONNECT=0 turns it off).
  bool connect_lazily = true;
};

Settings settings();
void set_settings(const Settings& settings);

/// Starts the schedule of `seed`: decisions are drawn as in a new process. Call it while no work is
/// in flight. The seed of a process that ends with a status other than 0 is printed.
void set_seed(std::uint64_t seed);

namespace detail {

/// A number drawn from the seed and the given place: the same in every run.
std::uint64_t draw(std::uint64_t a, std::uint64_t b, std::uint64_t c);

}  // namespace detail
}  // namespace comm::simulated
