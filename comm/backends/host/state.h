#pragma once

/// `State` is what a `Host` handle owns: its team, its symmetric memory, its open group, and what a
/// reconnect needs to know.

#include <memory>
#include <mutex>

#include "comm/backends/host.h"
#include "comm/backends/host/group.h"
#include "comm/backends/host/symmetric.h"
#include "comm/backends/host/team.h"
#include "comm/logger.h"

namespace comm::detail::host {

struct State {
  Host::Config config;
  bool is_divided = false;  ///< Made by `split` or `shrink`: it has no rendezvous of its own.

  Team* team = nullptr;  ///< `owned_team`, for the thread that submits.
  SymmetricMemory symmetric;
  Group group;

  std::shared_ptr<Logger> log;
  std::mutex reconnecting;  ///< One thread at a time rebuilds the communicator.
  const std::shared_ptr<const Told> told = std::make_shared<Told>();

  // Any thread may ask for health while another one reconnects.
  mutable std::mutex guard;
  std::shared_ptr<Team> owned_team;

  std::shared_ptr<Team> shared_team() const {
    const std::lock_guard<std::mutex> lock(guard);
    return owned_team;
  }
  void set_team(std::shared_ptr<Team> next) {
    if (log == nullptr)
      log = std::make_shared<Logger>(config.log, config.log_levels.value_or(LogLevels()),
                                     LogPart::host, next->rank(), next->size());
    log->set_epoch(next->world().epoch);
    next->set_log(log);
    if (!is_divided) next->set_told(told);
    team = next.get();
    const std::lock_guard<std::mutex> lock(guard);
    owned_team.swap(next);
  }
  Setting setting() const { return {*team, symmetric, team->world().timeout_ns}; }
};

/// The first team, of all ranks that the launch configuration names.
Result<std::unique_ptr<Team>> start(const Host::Config& config, const LaunchConfig& launch);

/// The team that follows `broken` after a rendezvous of all ranks.
Result<std::unique_ptr<Team>> restart(const Host::Config& config, Team& broken);

/// Null where this rank has no color.
Result<std::unique_ptr<Team>> split(Team& team, int color, int key, std::int64_t timeout_ns);
Result<std::unique_ptr<Team>> shrink(Team& team, const int* excluded, std::size_t n,
                                     std::int64_t timeout_ns);

}  // namespace comm::detail::host
