#include "examples/tensor_parallel/report.h"

#include <algorithm>
#include <cstdio>

#include "examples/tensor_parallel/weights.h"

namespace example {
namespace {

std::string of(Range range) {
  return std::to_string(range.begin) + "-" + std::to_string(range.end - 1);
}

void print_row(const std::string& name, const Shape& shape, const Shard& shard, double seconds,
               std::size_t positions, const Traffic& traffic) {
  std::printf("%-12s%-7s%-11s%6.1f M%7.2f s%10.0f%13llu%8.1f MB%7.1f %%\n", name.c_str(),
              of(shard.heads).c_str(), of(shard.ffn).c_str(),
              static_cast<double>(weight_count(shape, shard)) / 1e6, seconds,
              static_cast<double>(positions) / seconds,
              static_cast<unsigned long long>(traffic.calls),
              static_cast<double>(traffic.bytes) / 1e6, 100 * traffic.seconds / seconds);
}

}  // namespace

bool Outcome::ranks_agree() const {
  return std::all_of(ranks.begin(), ranks.end(), [&](const RankReport& rank) {
    return rank.fingerprint == ranks.front().fingerprint;
  });
}

void print(const Outcome& outcome, const Options& options, const Text& text,
           const std::string& backend) {
  const Shape& shape = options.shape;
  const int ranks = static_cast<int>(outcome.ranks.size());
  const char* dtype = options.element == Element::f32 ? "f32" : "bf16";
  std::printf("text    %s, %zu positions in sequences of %zu\n", text.name.c_str(),
              text.bytes.size(), shape.sequence);
  std::printf("model   %zu layers, hidden %zu, %zu heads, ffn %zu, FP32, seed %llu\n", shape.layers,
              shape.hidden, shape.heads, shape.ffn, static_cast<unsigned long long>(shape.seed));
  std::printf("1 rank  SingleGpu: no all-reduce is left in the object code of the model\n");
  std::printf("%-8s%s, all-reduces in %s\n\n",
              (std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks")).c_str(), backend.c_str(),
              dtype);
  std::printf("%-12s%-7s%-11s%8s%9s%10s%13s%11s%9s\n", "", "heads", "ffn", "weights", "time",
              "tokens/s", "all-reduces", "bytes", "share");

  const std::size_t positions = text.bytes.size();
  print_row("1 rank", shape, shard_of(shape, 0, 1), outcome.one_rank_seconds, positions, {});
  double slowest = 0;
  for (int r = 0; r < ranks; ++r) {
    const RankReport& rank = outcome.ranks[static_cast<std::size_t>(r)];
    print_row("rank " + std::to_string(r) + " of " + std::to_string(ranks), shape,
              shard_of(shape, r, ranks), rank.seconds, positions, rank.traffic);
    slowest = std::max(slowest, rank.seconds);
  }

  std::printf(
      "\nshare: of the rank's time that passes in all-reduces, waiting for others included\n");
  std::printf("speed-up            %.2f\n", outcome.one_rank_seconds / slowest);
  std::printf("ranks agree         %s\n", outcome.ranks_agree() ? "bit for bit" : "NO");
  std::printf("largest difference  %.2e from 1 rank, of values with root mean square 1\n",
              static_cast<double>(outcome.difference));
  std::printf("bound               %.2e from rounding alone (tensor_parallel/error_bound.h)\n",
              static_cast<double>(outcome.bound));
  std::printf("verdict             %s\n", outcome.held() ? "within the bound" : "FAILED");
}

}  // namespace example
