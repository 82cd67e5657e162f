#include "examples/tensor_parallel/parallel.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "comm/communicator.h"
#include "comm/launch/launch_config.h"
#include "examples/tensor_parallel/error_bound.h"
#include "examples/tensor_parallel/model.h"
#include "examples/tensor_parallel/parallel_backend.h"
#include "examples/tensor_parallel/reference.h"
#include "examples/tensor_parallel/report.h"

namespace example {
namespace {

using Communicator = comm::Communicator<ParallelBackend>;

/// FNV-1a, over words.
std::uint64_t fingerprint(std::span<const float> values) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const float value : values) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    hash = (hash ^ bits) * 0x100000001b3;
  }
  return hash;
}

/// The part of rank 0 that needs no other rank.
Run run_alone(const Options& options, const Text& text, int ranks, Outcome& outcome) {
  Progress progress("1 rank", text.bytes.size(), true);
  Run alone = run_on_one_rank(options.shape, text.bytes, progress);
  outcome.one_rank_seconds = alone.seconds;
  const std::size_t probed = std::min(batch_of(options.shape), text.bytes.size());
  outcome.bound = error_bound(options.shape, {text.bytes.data(), probed}, options.element, ranks);
  return alone;
}

comm::Result<Run> run_split(const Options& options, const Text& text, Communicator& communicator,
                            ParallelMemory& memory, Traffic& traffic) {
  ParallelWire<ParallelMemory> wire(memory, options.element);
  Model model(communicator, wire, options.shape);
  if (comm::Status s = communicator.barrier_wait(); !s.ok()) return s;
  const int ranks = communicator.world_size();
  Progress progress(std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks"), text.bytes.size(),
                    communicator.rank() == 0);
  comm::Result<Run> split = run(model, options.shape, text.bytes, progress);
  traffic = wire.traffic();
  return split;
}

/// Every rank's report, on every rank.
comm::Status exchange(Communicator& communicator, ParallelMemory& memory,
                      std::vector<RankReport>& reports) {
  const auto rank = static_cast<std::size_t>(communicator.rank());
  return memory.lend(communicator, std::span(reports), [&](auto all, comm::Stream stream) {
    return communicator.all_gather(all.subspan(rank, 1), all, stream).status().copy();
  });
}

comm::Result<bool> told_by_rank_0(Communicator& communicator, ParallelMemory& memory, bool held) {
  std::uint8_t word = held ? 1 : 0;
  comm::Status s = memory.lend(communicator, std::span(&word, 1), [&](auto span, comm::Stream st) {
    return communicator.broadcast(span, 0, st);
  });
  if (!s.ok()) return s;
  return word == 1;
}

}  // namespace

comm::Result<bool> run_as_rank(const Options& options, const Text& text) {
  comm::Result<comm::LaunchConfig> launch = comm::LaunchConfig::from_env();
  if (!launch.ok()) return std::move(launch).status();
  comm::Result<ParallelMemory> memory = ParallelMemory::create(launch->local_rank);
  if (!memory.ok()) return std::move(memory).status();

  // The others wait for rank 0 in `create`, asleep, and leave it the processor.
  Outcome outcome;
  Run alone;
  if (launch->rank == 0) alone = run_alone(options, text, launch->world_size, outcome);

  comm::Result<Communicator> communicator = Communicator::create();
  if (!communicator.ok()) return std::move(communicator).status();
  RankReport report;
  comm::Result<Run> split = run_split(options, text, *communicator, *memory, report.traffic);
  if (!split.ok()) return std::move(split).status();
  report.seconds = split->seconds;
  report.fingerprint = fingerprint(split->out);

  outcome.ranks.resize(static_cast<std::size_t>(communicator->world_size()));
  outcome.ranks[static_cast<std::size_t>(communicator->rank())] = report;
  if (comm::Status s = exchange(*communicator, *memory, outcome.ranks); !s.ok()) return s;
  if (communicator->rank() == 0) {
    outcome.difference = largest_difference(alone.out, split->out);
    print(outcome, options, text, kParallelBackendName);
  }
  return told_by_rank_0(*communicator, *memory, outcome.held());
}

}  // namespace example
