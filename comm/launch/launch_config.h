#pragma once

/// `LaunchConfig` says who this process is among its peers and how they find one another. An engine
/// fills it in by hand, or lets `from_env()` read what the launcher left in the environment:
/// torchrun and Kubernetes, Open MPI, MPICH/Hydra, SLURM or `commrun`, in that order. No variables
/// at all mean a world of one. It is plain data: nothing is opened, resolved or contacted here, so a
/// malformed variable is refused, by name and value, before any socket exists.
///
///     comm::Result<comm::LaunchConfig> launch = comm::LaunchConfig::from_env();
///     if (!launch.ok()) return fail(launch.message());
///
/// Ranks that are threads of one process share a listener instead of an address:
///
///     auto listener = comm::Listener::bind("127.0.0.1", 0);           // rendezvous/listener.h
///     comm::LaunchConfig launch = comm::LaunchConfig::local(rank, world_size, (*listener)->port());
///     if (rank == 0) launch.listener = std::move(*listener);
///
/// docs/rendezvous.md lists every variable.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "comm/result.h"

namespace comm {

class Listener;

struct LaunchConfig {
  /// The epoch of a process that joins for the first time: it takes whichever epoch is forming.
  static constexpr std::uint64_t kAnyEpoch = ~std::uint64_t{0};

  int rank = 0;
  int world_size = 1;
  int local_rank = 0;        ///< Among the ranks of this host; picks the GPU.
  int local_world_size = 1;  ///< How many ranks this host runs.

  /// Where rank 0 listens: a name, an IPv4 or IPv6 address, or "unix:NAME" for an abstract socket
  /// of this host. Unused where `rendezvous_file` is set.
  std::string root_address;
  std::uint16_t root_port = 0;

  /// The address or the interface that rank 0 binds; empty: derived from `root_address`.
  std::string bind_address;

  /// A path that all hosts share, where rank 0 publishes the port it was given.
  std::string rendezvous_file;

  std::string job_id;  ///< Must be the same on all ranks; keeps two jobs apart on one port.
  std::string secret;  ///< Empty: none. Never logged, never sent.

  std::chrono::milliseconds init_timeout{15 * 60 * 1000};  ///< For all ranks to have joined.
  std::chrono::milliseconds handshake_timeout{5000};       ///< For one connection to prove itself.
  std::chrono::milliseconds peer_timeout{30000};  ///< Until a silent network counts as a lost peer.

  std::uint64_t epoch = kAnyEpoch;

  /// A listening socket that the parent process made and this process inherited; -1: none. It stays
  /// open: the same port serves the next communicator of this process.
  int listen_fd = -1;

  /// A listening socket of this process; wins over `listen_fd`. Only rank 0 looks at either.
  std::shared_ptr<Listener> listener;

  std::string source = "explicit";  ///< Which environment was read; for messages.

  /// Reads the environment. Variables named COMM_* win over any launcher's.
  static Result<LaunchConfig> from_env();

  /// A rank of a job that lives on this host alone and meets at 127.0.0.1:`port`.
  static LaunchConfig local(int rank, int world_size, std::uint16_t port);

  /// Refuses what cannot be meant: world size below 1, rank outside of it, and so on.
  Status validate() const;
};

}  // namespace comm
