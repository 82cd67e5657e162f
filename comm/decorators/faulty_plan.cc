#include "comm/decorators/faulty_plan.h"

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace comm {
namespace {

constexpr const char* kActions[] = {"fail", "delay", "skip", "flip", "poison", "kill"};

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

template <class Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= Number{0};
}

/// What stands before `separator`; `text` keeps what stands after it. `has_rest`: it was there.
std::string_view split_off(std::string_view& text, char separator, bool& has_rest) {
  const std::size_t at = text.find(separator);
  const std::string_view head = text.substr(0, at);
  has_rest = at != std::string_view::npos;
  text = has_rest ? text.substr(at + 1) : std::string_view();
  return head;
}

bool parse_operation(std::string_view word, Fault& fault) {
  fault.any = word == "any";
  if (fault.any) return true;
  for (int i = 0; i <= static_cast<int>(Operation::attempt_reconnect); ++i) {
    fault.operation = static_cast<Operation>(i);
    if (word == to_string(fault.operation)) return true;
  }
  return false;
}

bool parse_code(std::string_view word, StatusCode& code) {
  for (int i = 1; i <= static_cast<int>(StatusCode::internal); ++i) {
    code = static_cast<StatusCode>(i);
    if (word == to_string(code)) return true;
  }
  return false;
}

bool parse_action(std::string_view text, Fault& fault) {
  bool has_value = false;
  const std::string_view word = split_off(text, '=', has_value);
  for (std::size_t i = 0; i < std::size(kActions); ++i) {
    if (word != kActions[i]) continue;
    fault.action = static_cast<FaultAction>(i);
    if (fault.action == FaultAction::fail) return !has_value || parse_code(text, fault.code);
    if (fault.action == FaultAction::delay) return has_value && parse_number(text, fault.value);
    if (fault.action == FaultAction::flip) return !has_value || parse_number(text, fault.value);
    return !has_value;
  }
  return false;
}

bool parse_fault(std::string_view text, Fault& fault) {
  bool has_action = false, has_options = false, has_nth = false;
  std::string_view where = split_off(text, ':', has_action);
  std::string_view call = split_off(where, ',', has_options);
  const std::string_view operation = split_off(call, '@', has_nth);
  if (!has_action || !parse_operation(operation, fault)) return false;
  if (has_nth && !parse_number(call, fault.nth)) return false;
  if (has_options && (!where.starts_with("rank=") || !parse_number(where.substr(5), fault.rank)))
    return false;
  return parse_action(text, fault);
}

}  // namespace

const char* to_string(FaultAction action) noexcept {
  return kActions[static_cast<int>(action)];
}

void FaultPlan::add_random(std::uint64_t seed, int per_mille, int rank) {
  seed_ = seed;
  random_per_mille_ = per_mille;
  random_rank_ = rank;
}

bool FaultPlan::has(FaultAction action) const {
  for (const Pending& pending : faults_)
    if (pending.fault.action == action) return true;
  return false;
}

Status FaultPlan::add_text(const char* begin, const char* end) {
  const std::string_view text(begin, static_cast<std::size_t>(end - begin));
  std::string_view rest = text;
  bool has_more = false;
  std::string_view word = split_off(rest, ',', has_more);
  if (word == "random" || word.starts_with("random=")) {
    auto seed = static_cast<std::uint64_t>(
        std::chrono::steady_clock::now().time_since_epoch().count() % 1'000'000'007);
    int per_mille = 10, rank = -1;
    bool is_read = word == "random" || parse_number(word.substr(7), seed);
    while (has_more && is_read) {
      word = split_off(rest, ',', has_more);
      is_read = (word.starts_with("rate=") && parse_number(word.substr(5), per_mille) &&
                 per_mille <= 1000) ||
                (word.starts_with("rank=") && parse_number(word.substr(5), rank));
    }
    if (is_read) {
      add_random(seed, per_mille, rank);
      return {};
    }
  }
  Fault fault;
  if (parse_fault(text, fault)) {
    add(fault);
    return {};
  }
  return make_error(
      StatusCode::invalid_argument, 0,
      "COMM_FAULTS: cannot read '%.*s'; wanted operation[@nth][,rank=N]:action[=value] "
      "(actions: fail[=code], delay=ms, skip, flip[=bit], poison, kill) or "
      "random[=seed][,rate=N][,rank=N], separated by semicolons",
      static_cast<int>(text.size() < 100 ? text.size() : 100), text.data());
}

Result<FaultPlan> FaultPlan::parse(const char* text) {
  FaultPlan plan;
  while (*text != '\0') {
    const char* end = text + std::strcspn(text, ";");
    if (end != text) {
      if (Status s = plan.add_text(text, end); !s.ok()) return s;
    }
    text = *end == '\0' ? end : end + 1;
  }
  return plan;
}

Result<FaultPlan> FaultPlan::from_env() {
  const char* text = std::getenv("COMM_FAULTS");
  return parse(text == nullptr ? "" : text);
}

bool FaultPlan::take(Operation operation, int rank, Fault& fault) {
  bool is_found = false;
  for (Pending& pending : faults_) {
    const Fault& f = pending.fault;
    if (pending.has_fired || (f.rank != -1 && f.rank != rank)) continue;
    if (!f.any && f.operation != operation) continue;
    ++pending.seen;
    if (is_found || (f.nth != 0 && pending.seen != f.nth)) continue;
    pending.has_fired = f.nth != 0;
    fault = f;
    is_found = true;
  }
  if (random_per_mille_ == 0 || (random_rank_ != -1 && random_rank_ != rank)) return is_found;
  const std::uint64_t draw = mix(mix(seed_ + static_cast<std::uint64_t>(rank)) + ++calls_);
  if (is_found || draw % 1000 >= static_cast<std::uint64_t>(random_per_mille_)) return is_found;
  constexpr FaultAction kDrawn[] = {FaultAction::fail, FaultAction::delay, FaultAction::skip};
  fault = Fault{operation, false, 1, rank, kDrawn[(draw >> 32) % std::size(kDrawn)]};
  fault.value = static_cast<std::int64_t>((draw >> 40) % 50);
  return true;
}

FaultPlan FaultPlan::fresh() const {
  FaultPlan plan = *this;
  plan.calls_ = 0;
  for (Pending& pending : plan.faults_) pending = {pending.fault};
  return plan;
}

}  // namespace comm
