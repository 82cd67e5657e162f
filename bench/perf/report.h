#pragma once

/// What `comm_perf` prints: the table of nccl-tests, the same as JSON, and a plot.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/perf/options.h"
#include "comm/status.h"

namespace comm::perf {

/// One way of calling an operation at one size. Times are microseconds, averaged over ranks.
struct Figures {
  bool measured = false;
  double p50 = 0;
  double p99 = 0;
  double mean = 0;
  double spread = 0;
  double algorithm_bandwidth = 0;  ///< GB/s, 10^9 bytes; 0 where a call takes no time.
  double bus_bandwidth = 0;        ///< GB/s, 10^9 bytes; 0 where a call takes no time.
  std::int64_t wrong = -1;         ///< Elements that are not what they should be; -1: not checked.
};

struct Row {
  std::size_t bytes = 0;
  std::size_t count = 0;
  double bound = 0;  ///< GB/s that the bus bandwidth can reach; 0 where it is not known.
  Figures out_of_place;
  Figures in_place;
};

struct Run {
  std::string backend;
  int rank = 0;  ///< This process.
  int ranks = 0;
  bool uses_cores = true;  ///< Of this machine, for moving data; false on GPUs.
  Options options;
  std::vector<Row> rows;
};

void print_header(const Run& run);
void print_row(const Run& run, const Row& row);

/// The averages, the total of wrong elements, and a warning where the machine was too noisy.
void print_summary(const Run& run);

std::string to_json(const Run& run);

/// Two panels over a logarithmic axis of sizes: bus bandwidth, and p50 latency.
std::string to_svg(const Run& run);

/// Half of the samples differ so much that their median means little.
bool is_noisy(const Row& row);

std::int64_t wrong_elements(const Run& run);

Status write_file(const std::string& path, std::string_view text);

}  // namespace comm::perf
