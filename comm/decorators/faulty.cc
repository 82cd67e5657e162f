#include "comm/decorators/faulty.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace comm::detail {

FaultState::FaultState() {
  Result<FaultPlan> plan = FaultPlan::from_env();
  if (plan.ok())
    plan_ = std::move(*plan);
  else
    refusal_ = std::move(plan).status();
}

Status FaultState::refusal(Operation operation, bool uses_host_memory) const {
  if (!refusal_.ok()) return refusal_.copy();
  if (uses_host_memory || !plan_.has(FaultAction::flip)) return {};
  return make_error(
      StatusCode::invalid_argument, 0,
      "%s: the fault plan flips bits of results, which needs memory that the host can "
      "write; this backend's is the GPU's",
      to_string(operation));
}

bool FaultState::take(Operation operation, const LogSettings& settings, const LogSource& source,
                      Fault& fault) {
  if (plan_.is_random() && !is_announced_) {
    is_announced_ = true;
    write_log(settings, source, LogPart::faulty, LogLevel::warn,
              "faults at random; COMM_FAULTS=random=%llu,rate=%d brings them again",
              static_cast<unsigned long long>(plan_.seed()), plan_.per_mille());
  }
  if (!plan_.take(operation, source.rank, fault)) return false;
  write_log(settings, source, LogPart::faulty, LogLevel::warn, "%s: %s%s%s", to_string(operation),
            to_string(fault.action), fault.action == FaultAction::fail ? "=" : "",
            fault.action == FaultAction::fail ? to_string(fault.code) : "");
  return true;
}

void perform_fault(const Fault& fault) {
  if (fault.action == FaultAction::delay)
    std::this_thread::sleep_for(std::chrono::milliseconds(fault.value));
  if (fault.action == FaultAction::kill) ::kill(::getpid(), SIGKILL);
}

Status fault_error(const Fault& fault, Operation operation, int rank, int size) {
  const StatusCode code = fault.action == FaultAction::poison ? StatusCode::unhealthy : fault.code;
  return make_error(code, 0, "%s on rank %d of %d: a fault that Faulty was told to make (%s)",
                    to_string(operation), rank, size, to_string(fault.action));
}

void flip_bit(void* memory, std::size_t bytes, std::int64_t bit) {
  if (memory == nullptr || bytes == 0) return;
  const auto at = static_cast<std::size_t>(bit) % (bytes * 8);
  static_cast<unsigned char*>(memory)[at / 8] ^= static_cast<unsigned char>(1u << (at % 8));
}

}  // namespace comm::detail
