#include "comm/testing/simulated/faults.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <vector>

#include "comm/testing/simulated/calls.h"

namespace comm::simulated {
namespace {

struct Pending {
  Fault fault;
  int seen = 0;
};

struct Plan {
  std::mutex mutex;
  std::vector<Pending> pending;
  std::atomic<int> count{0};  // Of `pending`, so that a call without faults takes no lock.
  std::atomic<int> fired{0};
  std::atomic<bool> unloaded{false};
};

constexpr struct {
  std::string_view word;
  FaultAction action;
} kActions[] = {
    {"fail", FaultAction::fail},
    {"async", FaultAction::async_error},
    {"in_progress", FaultAction::in_progress},
    {"never", FaultAction::never_finish},
    {"delay", FaultAction::delay},
    {"lose", FaultAction::lose},
    {"block", FaultAction::block},
    {"kill", FaultAction::kill},
    {"vanish", FaultAction::vanish},
    {"unload", FaultAction::unload_driver},
};

template <class Number>
bool parse(std::string_view text, Number* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

// What stands before `separator`; `*text` keeps what stands after it.
std::string_view split_off(std::string_view* text, char separator) {
  const std::size_t at = text->find(separator);
  const std::string_view head = text->substr(0, at);
  *text = at == std::string_view::npos ? std::string_view() : text->substr(at + 1);
  return head;
}

// call[@nth][,rank=N]:action[=value]
std::optional<Fault> parse_fault(std::string_view text) {
  Fault fault;
  std::string_view action = text;
  std::string_view where = split_off(&action, ':');
  std::string_view options = where;
  std::string_view call = split_off(&options, ',');
  std::string_view nth = call;
  fault.call = split_off(&nth, '@');
  if (fault.call.empty()) return std::nullopt;
  if (!nth.empty() && !parse(nth, &fault.nth)) return std::nullopt;
  if (!options.empty()) {
    if (!options.starts_with("rank=") || !parse(options.substr(5), &fault.rank)) {
      return std::nullopt;
    }
  }
  std::string_view value = action;
  const std::string_view word = split_off(&value, '=');
  if (!value.empty() && !parse(value, &fault.value)) return std::nullopt;
  for (const auto& known : kActions) {
    if (known.word != word) continue;
    fault.action = known.action;
    return fault;
  }
  return std::nullopt;
}

void load_environment() {
  const char* text = std::getenv("COMM_SIM_FAULTS");
  std::string why;
  if (text != nullptr && !inject(text, &why)) {
    std::fprintf(stderr,
                 "comm-sim: COMM_SIM_FAULTS: cannot read '%s'; wanted "
                 "call[@nth][,rank=N]:action[=value], separated by semicolons\n",
                 why.c_str());
    std::abort();
  }
}

Plan& raw_plan() {
  static Plan& plan = *new Plan;
  return plan;
}

Plan& plan() {
  static const bool loaded = (load_environment(), true);
  (void)loaded;
  return raw_plan();
}

}  // namespace

void inject(const Fault& fault) {
  Plan& plan = raw_plan();
  const std::lock_guard lock(plan.mutex);
  plan.pending.push_back({fault, 0});
  plan.count = static_cast<int>(plan.pending.size());
}

bool inject(std::string_view text, std::string* why) {
  while (!text.empty()) {
    const std::string_view one = split_off(&text, ';');
    if (one.empty()) continue;
    const std::optional<Fault> fault = parse_fault(one);
    if (!fault) {
      if (why != nullptr) *why = one;
      return false;
    }
    inject(*fault);
  }
  return true;
}

void clear_faults() {
  Plan& all = plan();
  const std::lock_guard lock(all.mutex);
  all.pending.clear();
  all.count = 0;
  all.unloaded = false;
}

int faults_fired() {
  return plan().fired;
}

void unload_driver() {
  plan().unloaded = true;
}

namespace detail {

bool driver_unloaded() {
  return raw_plan().unloaded;
}

FaultDecision decide_fault(const char* call, int rank) {
  count_call(call);
  Plan& all = plan();
  if (all.count == 0) return {};
  FaultDecision decision;
  {
    const std::lock_guard lock(all.mutex);
    for (std::size_t i = 0; i < all.pending.size(); ++i) {
      Pending& pending = all.pending[i];
      const Fault& fault = pending.fault;
      if (fault.call != call || (fault.rank != -1 && fault.rank != rank)) continue;
      ++pending.seen;
      if (decision.fired || (fault.nth != 0 && pending.seen != fault.nth)) continue;
      decision = {true, fault.action, fault.value};
      if (fault.nth != 0) {
        all.pending.erase(all.pending.begin() + static_cast<std::ptrdiff_t>(i));
        --i;
      }
    }
    all.count = static_cast<int>(all.pending.size());
  }
  if (!decision.fired) return decision;
  ++all.fired;
  if (decision.action == FaultAction::kill) kill(getpid(), SIGKILL);
  if (decision.action == FaultAction::unload_driver) all.unloaded = true;
  return decision;
}

}  // namespace detail
}  // namespace comm::simulated
