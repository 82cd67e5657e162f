#include "comm/testing/simulated/core/exit.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "comm/testing/simulated/core/event.h"
#include "comm/testing/simulated/core/graph.h"
#include "comm/testing/simulated/core/stream.h"
#include "comm/testing/simulated/faults.h"
#include "comm/testing/simulated/report.h"
#include "comm/testing/simulated/settings.h"

namespace comm::simulated {
namespace {

std::atomic<int (*)()> more_leaks{nullptr};

// glibc's on_exit passes the status, which std::atexit does not.
void at_exit(int status, void*) {
  const Settings now = settings();
  report_leaks();
  const bool failed = now.strict == Strict::fail && !reports().empty();
  if (status != 0 || failed) {
    std::fprintf(stderr, "comm-sim: replay with COMM_SIM_SEED=%llu\n",
                 static_cast<unsigned long long>(now.seed));
  }
  unload_driver();
  if (failed && status == 0) {
    std::fflush(nullptr);
    _exit(86);
  }
}

}  // namespace

int report_leaks() {
  int leaks = 0;
  if (const auto reporter = more_leaks.load()) leaks += reporter();
  detail::Machine& all = detail::machine();
  const detail::Lock lock(all.mutex);
  for (const detail::Stream* stream : all.streams) {
    if (stream->kind != detail::StreamKind::created || stream->closing) continue;
    ++leaks;
    detail::report(Violation::leak, "%s was never destroyed", detail::name_of(stream).c_str());
  }
  for (const detail::Event* event : all.events) {
    ++leaks;
    detail::report(Violation::leak, "event %p of device %d was never destroyed",
                   static_cast<const void*>(event), event->device);
  }
  for (const detail::Graph* graph : all.graphs) {
    ++leaks;
    detail::report(Violation::leak, "graph %p (%zu nodes) was never destroyed",
                   static_cast<const void*>(graph), graph->nodes.size());
  }
  for (const detail::GraphExec* exec : all.graph_execs) {
    ++leaks;
    detail::report(Violation::leak, "executable graph %p (%zu nodes) was never destroyed",
                   static_cast<const void*>(exec), exec->nodes.size());
  }
  for (const auto& [begin, allocation] : all.memory.live()) {
    ++leaks;
    detail::report(Violation::leak, "%zu bytes at %p, made by %s on device %d, were never freed",
                   allocation.size, reinterpret_cast<void*>(begin), allocation.made_by,
                   allocation.device);
  }
  return leaks;
}

namespace detail {

void watch_exit() {
  static const int once = on_exit(at_exit, nullptr);
  static_cast<void>(once);
}

void set_leak_reporter(int (*reporter)()) {
  more_leaks = reporter;
}

}  // namespace detail
}  // namespace comm::simulated
