#pragma once

/// What each launcher calls its variables, and how the ranks that it started on one host can find
/// one another when it gives them no address. Reads the environment and /proc; opens no socket.

#include <cstdint>
#include <optional>
#include <string>

#include "comm/result.h"

namespace comm::detail {

enum class Launcher { none, comm, torch, open_mpi, pmi, slurm };

struct Place {
  Launcher launcher = Launcher::none;
  const char* name = "none";  ///< For messages.
  int rank = 0;
  int world_size = 1;
  int local_rank = -1;        ///< -1: the launcher does not say.
  int local_world_size = -1;  ///< As above.
};

/// The first launcher, in the order of the enumeration, that left its variables.
Result<Place> find_place();

/// What only the processes of this job on this host know in common; empty where nothing is.
std::string local_job_key(const Place& place);

/// The name of the job for hellos; empty where the launcher has none.
std::string launcher_job_id(const Place& place);

/// The first host of a SLURM list such as "node[03-08,12],gpu1"; empty where it is malformed.
std::string first_slurm_host(const std::string& list);

/// How many tasks SLURM put on a node, from a list such as "4(x2),3"; -1 where it does not say.
int slurm_tasks_on_node(const std::string& list, int node);

struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};

/// Where the first task of a SLURM step runs and a port that belongs to the step: one of those it
/// reserved, or else one that is derived from the step's id.
Result<std::optional<HostPort>> slurm_root();

}  // namespace comm::detail
