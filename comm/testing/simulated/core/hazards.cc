#include <algorithm>
#include <chrono>

#include "comm/testing/simulated/core/machine.h"
#include "comm/testing/simulated/report.h"

namespace comm::simulated::detail {
namespace {

constexpr std::size_t kMostPending = 4096;

bool overlap(const Access& a, const Access& b) {
  return a.size > 0 && b.size > 0 && a.begin < b.begin + b.size && b.begin < a.begin + a.size;
}

const char* verb(const Access& access) {
  return access.writes ? "writes" : "reads";
}

}  // namespace

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

void check_order(const OperationPtr& op) {
  if (op->accesses.empty()) return;
  std::deque<OperationPtr>& pending = machine().pending;
  for (const OperationPtr& other : pending) {
    if (other->before(op->clock)) continue;
    for (const Access& mine : op->accesses) {
      const auto clash = std::find_if(
          other->accesses.begin(), other->accesses.end(),
          [&](const Access& its) { return (mine.writes || its.writes) && overlap(mine, its); });
      if (clash == other->accesses.end()) continue;
      report(Violation::unordered_access,
             "%s (operation %llu of %s) %s [%p, +%zu) while %s (operation %llu of %s) %s [%p, "
             "+%zu), and no event, synchronisation or stream order stands between them",
             op->what.c_str(), static_cast<unsigned long long>(op->index), op->stream_name.c_str(),
             verb(mine), reinterpret_cast<void*>(mine.begin), mine.size, other->what.c_str(),
             static_cast<unsigned long long>(other->index), other->stream_name.c_str(),
             verb(*clash), reinterpret_cast<void*>(clash->begin), clash->size);
      break;
    }
  }
  pending.push_back(op);
  if (pending.size() > kMostPending) pending.pop_front();
}

void check_not_in_flight(const void* pointer, std::size_t size, const char* call) {
  const Access freed = writes(pointer, size);
  for (const OperationPtr& op : machine().pending) {
    for (const Access& its : op->accesses) {
      if (!overlap(freed, its)) continue;
      report(Violation::freed_in_flight,
             "%s of [%p, +%zu) while %s (operation %llu of %s) %s [%p, +%zu) and the host has not "
             "waited for it",
             call, pointer, size, op->what.c_str(), static_cast<unsigned long long>(op->index),
             op->stream_name.c_str(), verb(its), reinterpret_cast<void*>(its.begin), its.size);
      break;
    }
  }
}

void check_not_registered(const void* pointer, std::size_t size, const char* call) {
  const Access freed = writes(pointer, size);
  for (const auto& [handle, range] : machine().registered) {
    if (!overlap(freed, {range.begin, range.size, false})) continue;
    report(Violation::bad_usage, "%s of [%p, +%zu) while %s has [%p, +%zu) registered", call,
           pointer, size, range.by.c_str(), reinterpret_cast<void*>(range.begin), range.size);
  }
}

void host_saw(const OperationPtr& op) {
  Machine& all = machine();
  all.host.merge(op->clock);
  std::erase_if(all.pending, [&](const OperationPtr& other) { return other->before(all.host); });
}

}  // namespace comm::simulated::detail
