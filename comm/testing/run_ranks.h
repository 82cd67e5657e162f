#pragma once

/// Runs ranks as threads of this process, under a watchdog, for tests.
///
///     comm::testing::run_ranks<comm::Host>(
///         3, [](comm::LaunchConfig launch) { return comm::Host::Config{.launch = std::move(launch)}; },
///         [](comm::Communicator<comm::Host>& communicator) { … });
///
/// A rank that cannot be made fails the running doctest case, with the reason, and its body does not
/// run. All threads are joined before the call returns.

#include <cstdint>
#include <memory>
#include <utility>

#include "comm/communicator.h"
#include "comm/launch/launch_config.h"
#include "comm/rendezvous/listener.h"
#include "comm/testing/expect.h"
#include "comm/testing/run_threads.h"

namespace comm::testing {

/// `configure` makes the backend's configuration out of the `LaunchConfig` of each rank; `body` gets
/// each rank's communicator.
template <Creatable B, class Configure, class Body>
void run_ranks(int ranks, Configure configure, Body body) {
  Result<std::shared_ptr<Listener>> listener = Listener::bind("127.0.0.1", 0);
  expect_ok(listener);
  if (!listener.ok()) return;
  const std::uint16_t port = (*listener)->port();
  run_threads(ranks, [&](int rank) {
    LaunchConfig launch = LaunchConfig::local(rank, ranks, port);
    if (rank == 0) launch.listener = *listener;
    Result<Communicator<B>> made = Communicator<B>::create(configure(std::move(launch)));
    expect_ok(made);
    if (made.ok()) body(*made);
  });
}

}  // namespace comm::testing
