#include "bench/perf/options.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "bench/perf/operation.h"

namespace comm::perf {
namespace {

constexpr std::string_view kUsage =
    R"(comm_perf: how fast a collective is, size by size (the flags of nccl-tests)

  comm_perf OPERATION [flags]
  comm_perf all_reduce -b 8 -e 64M -f 2 -t bf16 -o sum -n 20 -w 5 -c 1 --ranks 2

OPERATION   all_reduce all_gather reduce_scatter broadcast reduce gather scatter all_to_all
            send_recv (each rank to the next) barrier
  -b BYTES    smallest size (8; K, M and G are binary multiples)
  -e BYTES    largest size (64M)
  -f FACTOR   from one size to the next (2)
  -i BYTES    add this from one size to the next, instead of -f
  -t TYPE     i8 u8 i32 u32 i64 u64 f16 bf16 f32 f64 f8e4m3 f8e5m2 (f32); also -d,
              and as nccl-tests calls them: float, half, bfloat16, int8, ...
  -o OP       sum prod min max avg (sum)
  -r RANK     root of rooted operations (0)
  -n COUNT    samples per size (20)
  -w COUNT    samples before those that count (5)
  -c 0|1      compare every element with what it should be (1)
  --bound         beside it how fast the ranks, all at once, copy as many bytes from memory that their
                  neighbours have just written: "bound" in GB/s, and the shares of it that the bus
                  bandwidths out of place and in place are (host memory only)
  --fresh         each rank writes its buffers before each call, as an engine would; calls are timed one
                  by one, after a barrier. Without it, as in nccl-tests, nobody writes them, and who
                  reads a peer's memory may still have it in its cache
  --symmetric     buffers that peers can reach, from symmetric_alloc
  --backend NAME  nccl (where built with --config=nccl; the default there), host (the default
                  elsewhere) or single_gpu (one rank; costs nothing, and shows it)
  --ranks N       start N ranks on this machine; without it, join the launcher's world
  --json FILE     the figures as JSON too; - for standard output
  --plot FILE     bus bandwidth and latency against size, as SVG
  --help

Sizes are bytes as nccl-tests counts them: of the whole result for all_gather, of the whole input for
reduce_scatter, gather, scatter and all_to_all of a rank. A sample is one call, or a batch of calls
where one is too short to be timed; time is the median of the samples, averaged over ranks.
)";

constexpr std::pair<std::string_view, DataType> kNcclTestsTypes[] = {
    {"int8", DataType::i8},    {"uint8", DataType::u8},        {"int32", DataType::i32},
    {"uint32", DataType::u32}, {"int64", DataType::i64},       {"uint64", DataType::u64},
    {"half", DataType::f16},   {"bfloat16", DataType::bf16},   {"float", DataType::f32},
    {"double", DataType::f64}, {"fp8_e4m3", DataType::f8e4m3}, {"fp8_e5m2", DataType::f8e5m2},
};

template <class Integer>
std::optional<Integer> parse_integer(std::string_view text) {
  Integer value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Status bad(std::string_view flag, std::string_view value, const char* expected) {
  return make_error(StatusCode::invalid_argument, 0, "comm_perf: %.*s '%.*s': %s (--help)",
                    static_cast<int>(flag.size()), flag.data(), static_cast<int>(value.size()),
                    value.data(), expected);
}

Status set_bytes(std::size_t& field, std::string_view flag, std::string_view value) {
  const std::optional<std::size_t> bytes = parse_bytes(value);
  if (!bytes) return bad(flag, value, "not a size, such as 8, 64K or 1M");
  field = *bytes;
  return {};
}

Status set_count(int& field, int least, std::string_view flag, std::string_view value) {
  const std::optional<int> count = parse_integer<int>(value);
  if (!count || *count < least) return bad(flag, value, "not a number that is large enough");
  field = *count;
  return {};
}

Status set_flag(Options& o, std::string_view flag, std::string_view value) {
  if (flag == "-b") return set_bytes(o.min_bytes, flag, value);
  if (flag == "-e") return set_bytes(o.max_bytes, flag, value);
  if (flag == "-i") return set_bytes(o.step_bytes, flag, value);
  if (flag == "-n") return set_count(o.iterations, 1, flag, value);
  if (flag == "-w") return set_count(o.warmup, 0, flag, value);
  if (flag == "-r") return set_count(o.root, 0, flag, value);
  if (flag == "--ranks") return set_count(o.ranks, 1, flag, value);
  if (flag == "-f") {
    const std::string text(value);
    char* end = nullptr;
    o.step_factor = std::strtod(text.c_str(), &end);
    if (end == text.c_str() || *end != '\0' || !(o.step_factor > 1))
      return bad(flag, value, "not a factor above 1");
  } else if (flag == "-t" || flag == "-d") {
    const std::optional<DataType> type = parse_type(value);
    if (!type) return bad(flag, value, "not an element type");
    o.type = *type;
  } else if (flag == "-o") {
    const std::optional<ReduceOp> op = parse_reduce_op(value);
    if (!op) return bad(flag, value, "not one of sum prod min max avg");
    o.op = *op;
  } else if (flag == "-c") {
    if (value != "0" && value != "1") return bad(flag, value, "not 0 or 1");
    o.check = value == "1";
  } else if (flag == "--backend") {
    o.backend = value;
  } else if (flag == "--json") {
    o.json_path = value;
  } else if (flag == "--plot") {
    o.plot_path = value;
  } else {
    return bad("flag", flag, "unknown");
  }
  return {};
}

}  // namespace

std::string_view usage() {
  return kUsage;
}

std::optional<std::size_t> parse_bytes(std::string_view text) {
  double unit = 1;
  if (!text.empty()) {
    switch (text.back()) {
      case 'k':
      case 'K': unit = 1024; break;
      case 'm':
      case 'M': unit = 1024.0 * 1024; break;
      case 'g':
      case 'G': unit = 1024.0 * 1024 * 1024; break;
      default: break;
    }
  }
  const std::string number(text.substr(0, text.size() - (unit > 1 ? 1 : 0)));
  if (number.empty() || number.find_first_not_of("0123456789.") != std::string::npos)
    return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end) * unit;
  if (*end != '\0' || !(value <= 0x1p50)) return std::nullopt;
  return static_cast<std::size_t>(value);
}

std::optional<DataType> parse_type(std::string_view text) {
  for (int i = 0; i < kDataTypeCount; ++i) {
    const auto type = static_cast<DataType>(i);
    if (text == to_string(type)) return type;
  }
  for (const auto& [name, type] : kNcclTestsTypes) {
    if (text == name) return type;
  }
  return std::nullopt;
}

std::optional<ReduceOp> parse_reduce_op(std::string_view text) {
  for (const ReduceOp op :
       {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg}) {
    if (text == to_string(op)) return op;
  }
  return std::nullopt;
}

Result<Options> parse_options(int argc, char** argv) {
  Options options;
  bool named = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--help" || argument == "-h") {
      options.help = true;
      return options;
    }
    if (argument == "--symmetric") {
      options.symmetric = true;
    } else if (argument == "--bound") {
      options.bound = true;
    } else if (argument == "--fresh") {
      options.fresh = true;
    } else if (argument.starts_with("-")) {
      if (i + 1 == argc) return bad("flag", argument, "unknown, or without its value");
      if (Status s = set_flag(options, argument, argv[++i]); !s.ok()) return s;
    } else if (named || !find_operation(argument)) {
      return bad("operation", argument, named ? "one was named already" : "unknown");
    } else {
      options.operation = argument;
      named = true;
    }
  }
  if (options.min_bytes > options.max_bytes)
    return bad("-b", std::to_string(options.min_bytes), "larger than -e");
  return options;
}

std::vector<std::size_t> sizes(const Options& options) {
  std::vector<std::size_t> all;
  for (std::size_t bytes = options.min_bytes; bytes <= options.max_bytes;) {
    all.push_back(bytes);
    if (options.operation == "barrier") break;
    const auto grown = static_cast<std::size_t>(static_cast<double>(bytes) * options.step_factor);
    bytes = options.step_bytes != 0 ? bytes + options.step_bytes : std::max(bytes + 1, grown);
  }
  return all;
}

}  // namespace comm::perf
