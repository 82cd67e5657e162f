#pragma once

/// Whether a hello may become a rank: everything that can be told from the hello and the
/// configuration of rank 0 alone. What depends on who else has joined is the roster's.

#include <string>

#include "comm/rendezvous/messages.h"

namespace comm::detail {

/// What rank 0 expects of everybody.
struct Expectation {
  std::uint32_t world_size = 1;
  std::string job_id, secret, backend, backend_version, fingerprint;
};

struct Refusal {
  Reason reason = Reason::none;
  std::string text;  ///< For the one that is refused, and for the log.

  bool refused() const { return reason != Reason::none; }

  /// Whether the sender belongs to this job, so that its place stays empty and the others have to
  /// know: anything but a stranger.
  bool by_member() const;
};

/// The job id comes before the secret, since a job next door has another secret too and its ranks
/// should be told what they really got wrong.
Refusal check_hello(const Expectation& expected, const Greeting& greeting, const Hello& hello);

/// "rank 3 (pid 12 on host-a)".
std::string describe(const Hello& hello);

const char* to_string(Reason reason);

}  // namespace comm::detail
