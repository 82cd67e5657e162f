/// What `HasAgreement` asks for: one tick of the team, in which each rank shows its bytes.

#include <cstring>

#include "comm/backends/host/call.h"
#include "comm/backends/host/state.h"

namespace comm {

namespace host = detail::host;

static_assert(kMaxExchangedBytes <= host::kInline);

Status Host::exchange(const Exchange& exchange) {
  if (state_ == nullptr || !state_->team->is_usable()) return unusable(exchange.operation);
  host::Team& team = *state_->team;
  const std::int64_t timeout = exchange.timeout.nanoseconds_or(team.world().timeout_ns);
  host::Call call(team, {host::kExchange}, exchange.bytes, timeout, exchange.operation);
  Status met = call.meet(exchange.mine, exchange.bytes);
  if (!met.ok()) return met;
  auto* to = static_cast<std::byte*>(exchange.all);
  for (int r = 0; r < team.size(); ++r, to += exchange.bytes)
    std::memcpy(to, call.payload(r), exchange.bytes);
  return {};
}

Status Host::declare_unhealthy(Operation operation, const Status& cause) {
  if (state_ == nullptr) return unusable(operation);
  return state_->shared_team()->fail(operation, cause);
}

LogSettings Host::log_settings() const {
  return state_ == nullptr ? LogSettings() : state_->log->settings();
}

}  // namespace comm
