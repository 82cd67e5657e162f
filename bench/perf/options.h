#pragma once

/// The command line of `comm_perf`: the flags of nccl-tests, so that a line typed for one runs the
/// other, and a few of comm's own.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/data_type.h"
#include "comm/reduce_op.h"
#include "comm/result.h"

namespace comm::perf {

struct Options {
  std::string operation = "all_reduce";
  std::size_t min_bytes = 8;
  std::size_t max_bytes = std::size_t{64} << 20;
  std::size_t step_bytes = 0;  ///< 0: multiply by `step_factor` instead.
  double step_factor = 2;
  DataType type = DataType::f32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  int iterations = 20;
  int warmup = 5;
  bool check = true;
  bool bound = false;      ///< Beside what the ranks can copy at best.
  bool fresh = false;      ///< Each rank writes its buffers before each call.
  bool symmetric = false;  ///< Buffers from symmetric_alloc.
  int ranks = 0;           ///< 0: join the world a launcher made; else launch this many here.
  std::string backend;     ///< Empty: the first that is linked.
  bool help = false;
  std::string json_path;
  std::string plot_path;
};

/// What `--help` prints.
std::string_view usage();

/// The error names the argument and says what it may be.
Result<Options> parse_options(int argc, char** argv);

/// The sizes of a run, in bytes, ascending.
std::vector<std::size_t> sizes(const Options& options);

/// "64K", "8", "1.5M", "2G": binary multiples, as in nccl-tests.
std::optional<std::size_t> parse_bytes(std::string_view text);

/// comm's names ("bf16") and those of nccl-tests ("bfloat16").
std::optional<DataType> parse_type(std::string_view text);
std::optional<ReduceOp> parse_reduce_op(std::string_view text);

}  // namespace comm::perf
