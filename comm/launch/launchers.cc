#include "comm/launch/launchers.h"

#include <unistd.h>

#include <array>
#include <climits>
#include <fstream>

#include "comm/launch/environment.h"

namespace comm::detail {
namespace {

struct Names {
  Launcher launcher;
  const char* name;
  const char* rank;
  std::array<const char*, 3> world_size;  // The first that is set.
  const char* local_rank;
  const char* local_world_size;
};

constexpr Names kLaunchers[] = {
    {Launcher::comm,
     "COMM_RANK",
     "COMM_RANK",
     {"COMM_WORLD_SIZE"},
     "COMM_LOCAL_RANK",
     "COMM_LOCAL_WORLD_SIZE"},
    {Launcher::torch, "torchrun", "RANK", {"WORLD_SIZE"}, "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {Launcher::open_mpi,
     "Open MPI",
     "OMPI_COMM_WORLD_RANK",
     {"OMPI_COMM_WORLD_SIZE"},
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {Launcher::pmi, "MPICH", "PMI_RANK", {"PMI_SIZE"}, "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {Launcher::slurm,
     "SLURM",
     "SLURM_PROCID",
     {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"},
     "SLURM_LOCALID",
     nullptr},
};

// SLURM tells the number of tasks also where it started none: in the shell of salloc and in the
// batch script, which is "task 0" of however many the script may start later.
bool is_slurm_batch_script() {
  return variable("SLURM_PROCID") == "0" && variable("SLURM_GTIDS") == "0" &&
         !variable("SLURM_STEP_ID") && !variable("SLURM_STEPID");
}

const char* world_size_name(const Names& names) {
  for (const char* name : names.world_size) {
    if (name != nullptr && variable(name)) return name;
  }
  return names.world_size[0];
}

bool left_variables(const Names& names) {
  if (variable(names.rank)) return true;
  // SLURM's count of tasks alone says nothing about this process.
  return names.launcher != Launcher::slurm && variable(world_size_name(names)).has_value();
}

Result<int> required(const char* name, const char* because, std::int64_t least, std::int64_t most) {
  Result<std::optional<std::int64_t>> value = number_variable(name, least, most);
  if (!value.ok()) return std::move(value).status();
  if (!*value) {
    return make_error(StatusCode::invalid_argument, 0,
                      "launch: %s is not set, but %s is; set both or neither", name, because);
  }
  return static_cast<int>(**value);
}

Result<int> optional(const char* name, std::int64_t least, std::int64_t most) {
  if (name == nullptr) return -1;
  Result<std::optional<std::int64_t>> value = number_variable(name, least, most);
  if (!value.ok()) return std::move(value).status();
  return static_cast<int>(value->value_or(-1));
}

Result<Place> read_place(const Names& names) {
  const char* const world_name = world_size_name(names);
  Place place{names.launcher, names.name};

  const Result<int> world_size = required(world_name, names.rank, 1, INT_MAX);
  if (!world_size.ok()) return world_size.status().copy();
  place.world_size = *world_size;
  const Result<int> rank = required(names.rank, world_name, 0, INT_MAX);
  if (!rank.ok()) return rank.status().copy();
  place.rank = *rank;
  if (place.rank >= place.world_size) {
    return bad_variable(
        names.rank, std::to_string(place.rank),
        "expected less than " + std::string(world_name) + "=" + std::to_string(place.world_size));
  }
  if (names.launcher == Launcher::slurm && place.world_size > 1 && is_slurm_batch_script()) {
    return make_error(StatusCode::invalid_argument, 0,
                      "launch: %s=%d, but this process is the batch script's own (SLURM_STEP_ID is "
                      "not set); start it with srun, or set RANK and WORLD_SIZE",
                      world_name, place.world_size);
  }

  const Result<int> local_size = optional(names.local_world_size, 1, place.world_size);
  if (!local_size.ok()) return local_size.status().copy();
  place.local_world_size = *local_size;
  const int most = (place.local_world_size > 0 ? place.local_world_size : place.world_size) - 1;
  const Result<int> local_rank = optional(names.local_rank, 0, most);
  if (!local_rank.ok()) return local_rank.status().copy();
  place.local_rank = *local_rank;

  if (names.launcher == Launcher::slurm) {
    const Result<int> node = optional("SLURM_NODEID", 0, INT_MAX);
    if (!node.ok()) return node.status().copy();
    for (const char* list : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}) {
      if (*node < 0 || place.local_world_size > 0) break;
      const int tasks = slurm_tasks_on_node(variable(list).value_or(""), *node);
      if (tasks > place.local_rank && tasks <= place.world_size) place.local_world_size = tasks;
    }
  }
  return place;
}

// MPICH's ranks share no name in their environment, but they descend from one proxy on each host.
std::string hydra_proxy() {
  long pid = ::getppid();
  for (int depth = 0; depth < 16 && pid > 1; ++depth) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string line;
    if (!std::getline(file, line)) return "";
    const std::size_t open = line.find('('), close = line.rfind(')');
    if (open == std::string::npos || close == std::string::npos) return "";
    const std::string name = line.substr(open + 1, close - open - 1);
    // Behind the name: state, parent, ..., start time as the 20th.
    std::size_t at = close + 1;
    std::string fields[20];
    for (std::string& field : fields) {
      at = line.find_first_not_of(' ', at);
      const std::size_t end = line.find(' ', at);
      if (at == std::string::npos || end == std::string::npos) return "";
      field = line.substr(at, end - at);
      at = end;
    }
    if (name.find("pmi_proxy") != std::string::npos || name.starts_with("hydra")) {
      return std::to_string(pid) + "." + fields[19];
    }
    pid = static_cast<long>(parse_number(fields[1]).value_or(0));
  }
  return "";
}

std::string slurm_step() {
  const std::string job = variable("SLURM_JOB_ID").value_or(variable("SLURM_JOBID").value_or(""));
  if (job.empty()) return "";
  const std::string step =
      variable("SLURM_STEP_ID").value_or(variable("SLURM_STEPID").value_or("x"));
  return job + "." + step;
}

}  // namespace

Result<Place> find_place() {
  for (const Names& names : kLaunchers) {
    if (!left_variables(names)) continue;
    // `srun --mpi=pmi2` speaks PMI and leaves its variables too; SLURM's own say more.
    if (names.launcher == Launcher::pmi && variable("SLURM_STEP_ID") && variable("SLURM_PROCID") &&
        !variable(names.local_rank)) {
      continue;
    }
    return read_place(names);
  }
  return Place{};
}

std::string local_job_key(const Place& place) {
  switch (place.launcher) {
    case Launcher::none:
    case Launcher::comm: return "";
    case Launcher::torch: {
      // torchrun's own agent listens at MASTER_PORT and so keeps it apart from every other job.
      const std::string port = variable("MASTER_PORT").value_or("");
      if (variable("TORCHELASTIC_USE_AGENT_STORE") != "True" || port.empty()) return "";
      return "torchrun-" + variable("TORCHELASTIC_RUN_ID").value_or("") + "-" + port + "-" +
             variable("TORCHELASTIC_RESTART_COUNT").value_or("0");
    }
    case Launcher::open_mpi: {
      const std::string name =
          variable("PMIX_NAMESPACE").value_or(variable("OMPI_MCA_ess_base_jobid").value_or(""));
      return name.empty() ? "" : "ompi-" + name;
    }
    case Launcher::pmi: {
      const std::string name = variable("PMI_JOBID").value_or(hydra_proxy());
      return name.empty() ? "" : "mpich-" + name;
    }
    case Launcher::slurm: {
      const std::string step = slurm_step();
      return step.empty() ? "" : "slurm-" + step;
    }
  }
  return "";
}

std::string launcher_job_id(const Place& place) {
  if (place.launcher == Launcher::torch) {
    const std::optional<std::string> run = variable("TORCHELASTIC_RUN_ID");
    return run ? "torchrun-" + *run : "";
  }
  // Hydra's key is each host's own; it names nothing on another host.
  return place.launcher == Launcher::pmi ? "" : local_job_key(place);
}

}  // namespace comm::detail
