#include "comm/trace/words.h"

#include <cstdio>
#include <ctime>

namespace comm::trace {
namespace {

const char* reduction_name(std::uint8_t kind) {
  switch (static_cast<ReduceOp::Kind>(kind)) {
    case ReduceOp::Kind::sum: return to_string(ReduceOp::sum);
    case ReduceOp::Kind::prod: return to_string(ReduceOp::prod);
    case ReduceOp::Kind::min: return to_string(ReduceOp::min);
    case ReduceOp::Kind::max: return to_string(ReduceOp::max);
    case ReduceOp::Kind::avg: return to_string(ReduceOp::avg);
    case ReduceOp::Kind::premul_sum: return "premul_sum";
  }
  return "no reduction";
}

std::string elements(const Entry& e, std::uint64_t count) {
  return std::string(comm::to_string(e.type)) + " x " + std::to_string(count);
}

}  // namespace

std::string describe(const Entry& e) {
  std::string op = comm::to_string(e.op);
  const std::string partner = std::to_string(e.partner);
  switch (e.op) {
    case Operation::send_to: return op + " (" + elements(e, e.count) + ", to rank " + partner + ")";
    case Operation::recv_from:
      return op + " (" + elements(e, e.count) + ", from rank " + partner + ")";
    case Operation::send_recv:
      return op + " (" + elements(e, e.count) + " to rank " + partner + ", " +
             elements(e, e.recv_count) + " from rank " + std::to_string(e.source) + ")";
    case Operation::register_buffer:
    case Operation::symmetric_alloc: return op + " (" + std::to_string(e.count) + " bytes)";
    case Operation::split: return op + " (color " + partner + ")";
    case Operation::shrink: return op + " (without " + std::to_string(e.count) + ")";
    default: break;
  }
  if (e.op > Operation::send_recv) return op;
  std::string text = op + " (" + elements(e, e.count);
  if (e.reduction != kNoReduction) text += std::string(", ") + reduction_name(e.reduction);
  if (e.partner >= 0) text += ", root " + partner;
  return text + ")";
}

std::string describe_state(const Entry& e) {
  switch (e.state) {
    case State::started: return "started and not returned";
    case State::returned: return "submitted, not seen complete";
    case State::complete: return "complete";
    case State::failed: return std::string("failed (") + comm::to_string(e.result) + ")";
  }
  return "unknown";
}

std::string list_ranks(const std::vector<int>& ranks) {
  constexpr int kMostParts = 8;
  std::string text;
  int parts = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last == i + 1) last = i;  // Two are shorter without a dash.
    if (parts++ == kMostParts) {
      return text + " and " + std::to_string(ranks.size() - i) + " more";
    }
    if (i != 0) text += ", ";
    text += std::to_string(ranks[i]);
    if (last != i) text += "-" + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string name_ranks(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + list_ranks(ranks);
}

std::string duration(std::int64_t nanoseconds) {
  char text[48];
  const auto n = static_cast<double>(nanoseconds < 0 ? -nanoseconds : nanoseconds);
  const char* sign = nanoseconds < 0 ? "-" : "";
  if (n < 1e6)
    std::snprintf(text, sizeof text, "%s%.0f us", sign, n / 1e3);
  else if (n < 1e9)
    std::snprintf(text, sizeof text, "%s%.1f ms", sign, n / 1e6);
  else if (n < 120e9)
    std::snprintf(text, sizeof text, "%s%.1f s", sign, n / 1e9);
  else
    std::snprintf(text, sizeof text, "%s%.0f min", sign, n / 60e9);
  return text;
}

std::string time_of_day(std::int64_t unix_ns) {
  const std::time_t seconds = unix_ns / 1'000'000'000;
  std::tm broken{};
  if (::gmtime_r(&seconds, &broken) == nullptr) return "?";
  char text[48];
  std::snprintf(text, sizeof text, "%02d:%02d:%02d.%06d", broken.tm_hour, broken.tm_min,
                broken.tm_sec, static_cast<int>(unix_ns % 1'000'000'000 / 1000));
  return text;
}

}  // namespace comm::trace
