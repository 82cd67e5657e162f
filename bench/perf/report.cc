#include "bench/perf/report.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "bench/perf/machine.h"
#include "bench/perf/operation.h"
#include "bench/perf/statistics.h"

namespace comm::perf {
namespace {

const OperationTraits& traits(const Run& run) {
  return *find_operation(run.options.operation);
}

const char* redop(const Run& run) {
  return traits(run).reduces ? to_string(run.options.op) : "none";
}

void print_figures(const Figures& f) {
  if (!f.measured) {
    std::printf(" %9s %9s %7s %7s %6s", "N/A", "N/A", "N/A", "N/A", "N/A");
    return;
  }
  std::printf(" %9.2f %9.2f %7.2f %7.2f", f.p50, f.p99, f.algorithm_bandwidth, f.bus_bandwidth);
  if (f.wrong < 0)
    std::printf(" %6s", "N/A");
  else
    std::printf(" %6lld", static_cast<long long>(f.wrong));
}

void print_bound(const Row& row) {
  if (row.bound == 0) {
    std::printf(" %7s %4s %4s", "N/A", "N/A", "N/A");
    return;
  }
  std::printf(" %7.2f", row.bound);
  for (const Figures* f : {&row.out_of_place, &row.in_place}) {
    if (f->measured)
      std::printf(" %4.2f", f->bus_bandwidth / row.bound);
    else
      std::printf(" %4s", "N/A");
  }
}

bool is_noisy(const Figures& f) {
  return f.measured && f.p50 >= kShortestTime && f.spread > kNoisySpread;
}

std::string json_figures(const Figures& f) {
  if (!f.measured) return "null";
  char text[320];
  std::snprintf(text, sizeof text,
                "{\"p50_us\": %.4f, \"p99_us\": %.4f, \"mean_us\": %.4f, \"spread\": %.4f, "
                "\"algbw_gbs\": %.4f, \"busbw_gbs\": %.4f, \"wrong\": %lld}",
                f.p50, f.p99, f.mean, f.spread, f.algorithm_bandwidth, f.bus_bandwidth,
                static_cast<long long>(f.wrong));
  return text;
}

}  // namespace

bool is_noisy(const Row& row) {
  return is_noisy(row.out_of_place) || is_noisy(row.in_place);
}

void print_header(const Run& run) {
  const Options& o = run.options;
  std::printf("# comm_perf %s, backend %s, %d rank%s, %d samples after %d, type %s, redop %s%s%s\n",
              o.operation.c_str(), run.backend.c_str(), run.ranks, run.ranks == 1 ? "" : "s",
              o.iterations, o.warmup, to_string(o.type), redop(run),
              o.symmetric ? ", symmetric buffers" : "", o.fresh ? ", freshly written" : "");
  std::printf(
      "# time is the median of the samples in us, averaged over ranks; p99 likewise; "
      "bandwidth in GB/s (10^9)\n");
  std::fputs(machine_warnings(run.uses_cores ? run.ranks : 0).c_str(), stdout);
  std::printf("#\n");
  std::printf("# %48s %-41s  %-41s\n", "", "out-of-place", "in-place");
  std::printf("#%11s %12s %7s %6s %5s", "size", "count", "type", "redop", "root");
  for (int i = 0; i < 2; ++i)
    std::printf(" %9s %9s %7s %7s %6s", "time", "p99", "algbw", "busbw", "#wrong");
  std::printf("%s\n", o.bound ? "   bound  out  in" : "");
}

void print_row(const Run& run, const Row& row) {
  std::printf("%12zu %12zu %7s %6s %5d", row.bytes, row.count, to_string(run.options.type),
              redop(run), traits(run).has_root ? run.options.root : -1);
  print_figures(row.out_of_place);
  print_figures(row.in_place);
  if (run.options.bound) print_bound(row);
  std::printf("%s\n", is_noisy(row) ? "  ~" : "");
  std::fflush(stdout);
}

std::int64_t wrong_elements(const Run& run) {
  std::int64_t wrong = 0;
  for (const Row& row : run.rows) {
    for (const Figures* f : {&row.out_of_place, &row.in_place})
      if (f->measured && f->wrong > 0) wrong += f->wrong;
  }
  return wrong;
}

void print_summary(const Run& run) {
  double bandwidth = 0;
  std::size_t measured = 0;
  std::size_t noisy = 0;
  for (const Row& row : run.rows) {
    noisy += is_noisy(row) ? 1 : 0;
    for (const Figures* f : {&row.out_of_place, &row.in_place}) {
      if (!f->measured) continue;
      bandwidth += f->bus_bandwidth;
      ++measured;
    }
  }
  std::printf("# wrong elements: %lld %s\n", static_cast<long long>(wrong_elements(run)),
              !run.options.check         ? "(not checked)"
              : wrong_elements(run) == 0 ? "OK"
                                         : "FAILED");
  std::printf("# average bus bandwidth: %.3f GB/s\n",
              measured == 0 ? 0.0 : bandwidth / static_cast<double>(measured));
  if (noisy > 0) {
    std::printf(
        "# ~ %zu of %zu sizes were noisy: half of their samples differ by more than %.0f %% "
        "of the median. Do not trust them; run again on a quieter machine, with more -n.\n",
        noisy, run.rows.size(), kNoisySpread * 100);
  }
}

std::string to_json(const Run& run) {
  const Options& o = run.options;
  std::string text = "{\"operation\": \"" + o.operation + "\", \"backend\": \"" + run.backend +
                     "\", \"ranks\": " + std::to_string(run.ranks) + ", \"type\": \"" +
                     to_string(o.type) + "\", \"redop\": \"" + redop(run) +
                     "\", \"samples\": " + std::to_string(o.iterations) +
                     ", \"symmetric\": " + (o.symmetric ? "true" : "false") +
                     ", \"fresh\": " + (o.fresh ? "true" : "false") + ", \"rows\": [";
  for (std::size_t i = 0; i < run.rows.size(); ++i) {
    const Row& row = run.rows[i];
    text += i == 0 ? "\n" : ",\n";
    text += "  {\"bytes\": " + std::to_string(row.bytes) +
            ", \"count\": " + std::to_string(row.count) +
            (row.bound == 0 ? "" : ", \"bound_gbs\": " + std::to_string(row.bound)) +
            ", \"out_of_place\": " + json_figures(row.out_of_place) +
            ", \"in_place\": " + json_figures(row.in_place) +
            ", \"noisy\": " + (is_noisy(row) ? "true" : "false") + "}";
  }
  return text + "\n]}\n";
}

Status write_file(const std::string& path, std::string_view text) {
  std::FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "w");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr && file != stdout) written = std::fclose(file) == 0 && written;
  if (written) return {};
  return make_error(StatusCode::internal, errno, "comm_perf: cannot write '%s': %s", path.c_str(),
                    std::strerror(errno));
}

}  // namespace comm::perf
