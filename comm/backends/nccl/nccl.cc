#include "comm/backends/nccl.h"

#include <string_view>

#include "comm/backends/nccl/group.h"
#include "comm/backends/nccl/state.h"

namespace comm {

Nccl::Nccl(std::shared_ptr<detail::nccl::State> state) noexcept
    : hot_(state.get()), state_(std::move(state)) {}

Nccl& Nccl::operator=(Nccl&& other) noexcept {
  if (this == &other) return *this;
  if (state_ != nullptr) close().ignore();
  hot_ = std::exchange(other.hot_, nullptr);
  state_ = std::move(other.state_);
  return *this;
}

Nccl::~Nccl() {
  if (state_ == nullptr) return;
  Status closed = close();
  if (!closed.ok()) state_->say(LogLevel::error, "%s", closed.message());
}

Result<Nccl> Nccl::create(const Config& config) {
  Result<std::shared_ptr<detail::nccl::State>> made = detail::nccl::create(config);
  if (!made.ok()) return std::move(made).status();
  return Nccl(std::move(*made));
}

std::uint64_t Nccl::epoch() const {
  return state_->epoch.load();
}

Status Nccl::group_start(const ops::GroupStart&) {
  return detail::nccl::group_start(*state_);
}

Status Nccl::group_end(const ops::GroupEnd&) {
  return detail::nccl::group_end(*state_);
}

Result<Nccl> Nccl::split(const ops::Split& op) {
  Result<std::shared_ptr<detail::nccl::State>> made = detail::nccl::split(*state_, op);
  if (!made.ok()) return std::move(made).status();
  return Nccl(std::move(*made));
}

Result<Nccl> Nccl::shrink(const ops::Shrink& op) {
  Result<std::shared_ptr<detail::nccl::State>> made = detail::nccl::shrink(*state_, op);
  if (!made.ok()) return std::move(made).status();
  return Nccl(std::move(*made));
}

bool Nccl::is_healthy() const {
  if (state_->is_open() && state_->look(Operation::synchronize).ok()) return true;
  state_->told.remember(state_->epoch.load());
  return false;
}

Status Nccl::attempt_reconnect(const ops::AttemptReconnect&) {
  return detail::nccl::reconnect(*state_);
}

Status Nccl::abort(const ops::Abort&) {
  return detail::nccl::abort(*state_);
}

Status Nccl::exchange(const Exchange& exchange) {
  return state_->exchange(exchange);
}

Status Nccl::declare_unhealthy(Operation operation, const Status& cause) {
  if (!state_->is_open()) return state_->refuse(operation);
  // The cause may name operation and rank already, as that of an exchange does.
  const std::string_view text = cause.message();
  if (text.find(" on rank ") != std::string_view::npos) return state_->poison(cause.copy());
  return state_->poison(
      state_->error(cause.code(), cause.native_code(), operation, "%s", cause.message()));
}

LogSettings Nccl::log_settings() const {
  return state_->log == nullptr ? LogSettings() : state_->log->settings();
}

Status Nccl::close() {
  return state_->close();
}

}  // namespace comm
