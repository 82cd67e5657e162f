#include "comm/testing/simulated/report.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "comm/testing/simulated/settings.h"

namespace comm::simulated {
namespace {

struct Book {
  std::mutex mutex;
  std::vector<Report> reports;
  std::function<void(const Report&)> callback;
};

// Never destroyed: reports may still arise while the process ends.
Book& book() {
  static Book& book = *new Book;
  return book;
}

}  // namespace

const char* name_of(Violation violation) {
  switch (violation) {
    case Violation::mismatch: return "mismatch";
    case Violation::unordered_access: return "unordered access";
    case Violation::freed_in_flight: return "freed in flight";
    case Violation::bad_pointer: return "bad pointer";
    case Violation::group_depth: return "group depth";
    case Violation::stale_handle: return "stale handle";
    case Violation::bad_usage: return "bad usage";
    case Violation::leak: return "leak";
  }
  return "unknown";
}

std::vector<Report> reports() {
  const std::lock_guard lock(book().mutex);
  return book().reports;
}

std::vector<Report> reports(Violation violation) {
  std::vector<Report> found;
  for (Report& report : reports()) {
    if (report.violation == violation) found.push_back(std::move(report));
  }
  return found;
}

std::vector<Report> take_reports() {
  const std::lock_guard lock(book().mutex);
  return std::exchange(book().reports, {});
}

void set_report_callback(std::function<void(const Report&)> callback) {
  const std::lock_guard lock(book().mutex);
  book().callback = std::move(callback);
}

namespace detail {

void report(Violation violation, const char* format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);

  std::fprintf(stderr, "comm-sim: %s: %s\n", name_of(violation), text);
  std::function<void(const Report&)> callback;
  {
    const std::lock_guard lock(book().mutex);
    book().reports.push_back({violation, text});
    callback = book().callback;
  }
  if (callback) callback({violation, text});
  const Settings now = settings();
  if (now.strict == Strict::abort) {
    std::fprintf(stderr, "comm-sim: replay with COMM_SIM_SEED=%llu\n",
                 static_cast<unsigned long long>(now.seed));
    std::abort();
  }
}

}  // namespace detail
}  // namespace comm::simulated
