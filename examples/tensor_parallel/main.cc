// //examples:tensor_parallel: a transformer on one rank, and the same one split over N. See --help.

#include <cstdio>
#include <utility>

#include "comm/launch/launch_config.h"
#include "comm/launch/self_launch.h"
#include "examples/tensor_parallel/options.h"
#include "examples/tensor_parallel/parallel.h"
#include "examples/tensor_parallel/text.h"

namespace {

enum Exit { kAgree = 0, kDiffer = 1, kUsage = 2, kFailed = 3 };

int fail(Exit code, const comm::Status& status) {
  std::fprintf(stderr, "tensor_parallel: %s\n", status.message());
  return code;
}

int run(example::Options options, char* const* argv) {
  comm::Result<comm::LaunchConfig> launch = comm::LaunchConfig::from_env();
  if (!launch.ok()) return fail(kUsage, launch.status());
  const bool was_launched = launch->source != "none";
  if (was_launched && options.ranks_given && options.ranks != launch->world_size) {
    std::fprintf(stderr, "tensor_parallel: --ranks %d, but %s started %d; leave --ranks out\n",
                 options.ranks, launch->source.c_str(), launch->world_size);
    return kUsage;
  }
  if (was_launched) options.ranks = launch->world_size;
  if (comm::Status s = example::check_split(options.shape, options.ranks); !s.ok()) {
    return fail(kUsage, s);
  }
  comm::Result<example::Text> text = example::read_text(options.text, options.positions);
  if (!text.ok()) return fail(kUsage, text.status());

  if (!was_launched) {
    comm::Result<int> exit = comm::launch_self(options.ranks, argv);
    return exit.ok() ? *exit : fail(kFailed, exit.status());
  }
  comm::Result<bool> agree = example::run_as_rank(options, *text);
  if (!agree.ok()) return fail(kFailed, agree.status());
  return *agree ? kAgree : kDiffer;
}

}  // namespace

int main(int argc, char** argv) {
  comm::Result<example::Options> options = example::parse_options(argc, argv);
  if (!options.ok()) return fail(kUsage, options.status());
  if (options->help) {
    std::fputs(example::kHelp, stdout);
    return kAgree;
  }
  return run(std::move(*options), argv);
}
