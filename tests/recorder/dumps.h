#pragma once

/// Dumps made up for the tests of comm_trace, one call a submission:
///
///     Rank(0).reduce(8).barrier(State::started)

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "comm/trace/analysis.h"
#include "comm/trace/dump.h"
#include "comm/trace/view.h"
#include "comm/trace/world.h"

namespace tests {

using comm::Operation, comm::StatusCode, comm::trace::Dump, comm::trace::Entry, comm::trace::State;

constexpr std::int64_t kSecond = 1'000'000'000;

class Rank {
 public:
  explicit Rank(int rank, int size = 4, std::string name = "world") {
    dump_.file = "rank" + std::to_string(rank) + ".json";
    dump_.name = std::move(name);
    dump_.rank = rank;
    dump_.world_size = size;
    dump_.host = "node" + std::to_string(rank);
    dump_.created = kSecond;
    dump_.dumped = 1000 * kSecond;
  }

  /// From here on in another epoch.
  Rank& epoch(std::uint64_t epoch) {
    dump_.epoch = epoch;
    dump_.collectives = 0;
    return *this;
  }
  Rank& add(Entry e, bool is_collective, State state) {
    e.seq = ++dump_.submissions;
    e.epoch = dump_.epoch;
    if (is_collective) e.collective = ++dump_.collectives;
    e.state = state;
    e.submitted = static_cast<std::int64_t>(e.seq) * kSecond;
    if (state == State::complete || state == State::failed) e.ended = e.submitted + kSecond / 2;
    dump_.entries.push_back(e);
    return *this;
  }
  Rank& reduce(std::uint64_t count, State state = State::complete) {
    Entry e;
    e.op = Operation::all_reduce;
    e.type = comm::DataType::bf16;
    e.count = count;
    e.reduction = 0;
    return add(e, true, state);
  }
  Rank& broadcast(std::uint64_t count, int root, State state = State::complete) {
    Entry e;
    e.op = Operation::broadcast;
    e.type = comm::DataType::f32;
    e.count = count;
    e.partner = root;
    return add(e, true, state);
  }
  Rank& command(int root, State state = State::complete) {
    Entry e;
    e.op = Operation::recv_command_u32;
    e.type = comm::DataType::u32;
    e.count = 1;
    e.partner = root;
    return add(e, true, state);
  }
  Rank& plain(Operation op, State state = State::complete) {
    Entry e;
    e.op = op;
    return add(e, op == Operation::barrier, state);
  }
  Rank& message(Operation op, int peer, std::uint64_t count, State state = State::complete) {
    Entry e;
    e.op = op;
    e.type = comm::DataType::f32;
    e.count = count;
    e.partner = peer;
    return add(e, false, state);
  }
  /// The last one failed.
  Rank& fails(StatusCode code, const std::string& message) {
    dump_.entries.back().state = State::failed;
    dump_.entries.back().result = code;
    dump_.entries.back().ended = dump_.entries.back().submitted + kSecond / 2;
    dump_.failure = {dump_.entries.back().seq, code, message};
    return *this;
  }
  /// The ring keeps only the last.
  Rank& keeps(std::size_t count) {
    if (dump_.entries.size() > count)
      dump_.entries.erase(dump_.entries.begin(),
                          dump_.entries.end() - static_cast<std::ptrdiff_t>(count));
    return *this;
  }
  Dump& dump() { return dump_; }

 private:
  Dump dump_;
};

inline std::vector<comm::trace::World> worlds_of(std::vector<Rank> ranks) {
  std::vector<Dump> dumps;
  for (Rank& rank : ranks) dumps.push_back(std::move(rank.dump()));
  return comm::trace::sort_into_worlds(std::move(dumps));
}

/// What is said of the one world that the ranks are in.
inline std::string sentence(std::vector<Rank> ranks) {
  const auto worlds = worlds_of(std::move(ranks));
  if (worlds.size() != 1) return std::to_string(worlds.size()) + " worlds";
  const comm::trace::View view(worlds[0], kSecond);
  const comm::trace::Report report = comm::trace::analyse(view);
  return report.findings.empty() ? report.otherwise : report.findings[0].sentence;
}

}  // namespace tests
