#pragma once

/// Measures one operation on one communicator, size by size. The loop is that of nccl-tests: calls
/// back to back, no barrier between them. Where one call is too short for the clock, a sample is a
/// batch of calls, the same number on every rank.

#include <chrono>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "bench/perf/neighbour_copy.h"
#include "bench/perf/operation.h"
#include "bench/perf/options.h"
#include "bench/perf/pattern.h"
#include "bench/perf/report.h"
#include "bench/perf/settle.h"
#include "bench/perf/statistics.h"
#include "comm/backend.h"
#include "comm/device_span.h"
#include "comm/result.h"

namespace comm::perf {

/// `Memory` gives buffers that the communicator can use: `Memory::make<T>(communicator, count,
/// symmetric)` returns a `Result` of something with `span()`; `Memory::upload(vector, span)` and
/// `Memory::download(span, vector)` copy, and `Memory::zero(span)` writes zeros. A sample shorter than `Memory::kShortestSample` says more
/// about the clock, or about waiting for a GPU, than about the call.
template <class T, class Comm, class Memory>
class Measurement {
  using Buffer =
      typename decltype(Memory::template make<T>(std::declval<Comm&>(), 0, false))::value_type;

 public:
  static Result<Measurement> make(Comm& communicator, const Options& options, std::size_t count) {
    const OperationTraits& traits = *find_operation(options.operation);
    const auto world = static_cast<std::size_t>(communicator.world_size());
    const std::size_t whole = traits.splits_size ? count * world : count;
    Result<Buffer> send = Memory::template make<T>(communicator, whole, options.symmetric);
    if (!send.ok()) return std::move(send).status();
    Result<Buffer> recv = Memory::template make<T>(communicator, whole, options.symmetric);
    if (!recv.ok()) return std::move(recv).status();
    return Measurement(communicator, options, count, std::move(*send), std::move(*recv));
  }

  Result<Figures> run(bool in_place, std::size_t bytes) {
    Figures figures;
    if (in_place && !traits_->has_in_place) return figures;
    // The first call connects, and faults pages in.
    if (auto first = call(in_place); !first.ok()) return std::move(first).status();
    if (Status s = communicator_->synchronize(); !s.ok()) return s;
    Result<int> batch = batch_size(in_place);
    if (!batch.ok()) return std::move(batch).status();
    std::vector<double> samples;
    samples.reserve(static_cast<std::size_t>(options_->iterations));
    if (Status s = communicator_->barrier_wait(); !s.ok()) return s;
    for (int i = -options_->warmup; i < options_->iterations; ++i) {
      Result<double> sample = time(in_place, *batch);
      if (!sample.ok()) return std::move(sample).status();
      if (i >= 0) samples.push_back(*sample);
    }
    figures.measured = true;
    if (options_->check && traits_->kind != Kind::barrier) {
      Result<std::int64_t> wrong = verify(in_place);
      if (!wrong.ok()) return std::move(wrong).status();
      figures.wrong = *wrong;
    }
    if (Status s = share(statistics_of(std::move(samples)), figures); !s.ok()) return s;
    if (figures.p50 >= kShortestTime)
      figures.algorithm_bandwidth = static_cast<double>(bytes) / figures.p50 / 1e3;
    figures.bus_bandwidth =
        figures.algorithm_bandwidth * bus_factor(traits_->kind, communicator_->world_size());
    return figures;
  }

 private:
  Measurement(Comm& communicator, const Options& options, std::size_t count, Buffer send,
              Buffer recv)
      : communicator_(&communicator),
        options_(&options),
        traits_(find_operation(options.operation)),
        count_(count),
        world_(static_cast<std::size_t>(communicator.world_size())),
        rank_(communicator.rank()),
        send_(std::move(send)),
        recv_(std::move(recv)) {}

  // This rank's block of a buffer of all blocks.
  DeviceSpan<T> own(DeviceSpan<T> all) const {
    return all.subspan(static_cast<std::size_t>(rank_) * count_, count_);
  }
  int next() const { return (rank_ + 1) % static_cast<int>(world_); }
  int previous() const { return (rank_ + static_cast<int>(world_) - 1) % static_cast<int>(world_); }

  // Where the result is, as the communicator says; empty on ranks that get none.
  Result<DeviceSpan<T>> call(bool in_place) {
    Comm& c = *communicator_;
    const Options& o = *options_;
    const DeviceSpan<T> recv = recv_.span();
    const DeviceSpan<T> send = in_place ? recv : send_.span();
    switch (traits_->kind) {
      case Kind::all_reduce: return c.all_reduce(send, recv, o.op);
      case Kind::all_gather: return c.all_gather(in_place ? own(recv) : send.first(count_), recv);
      case Kind::reduce_scatter:
        return c.reduce_scatter(send, in_place ? own(recv) : recv.first(count_), o.op);
      case Kind::broadcast: return done(c.broadcast_async(send, o.root), send);
      case Kind::reduce: return c.reduce(send, recv, o.op, o.root);
      case Kind::gather: return c.gather(in_place ? own(recv) : send.first(count_), recv, o.root);
      case Kind::scatter: return c.scatter(send, in_place ? own(recv) : recv.first(count_), o.root);
      case Kind::all_to_all: return c.all_to_all(send, recv);
      case Kind::send_recv: return c.send_recv(send, next(), recv, previous());
      case Kind::barrier: break;
    }
    return done(c.barrier(), {});
  }

  static Result<DeviceSpan<T>> done(Status status, DeviceSpan<T> result) {
    if (!status.ok()) return status;
    return result;
  }

  Result<double> time(bool in_place, int batch) {
    if (options_->fresh) return time_fresh(in_place, batch);
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < batch; ++i) {
      if (auto called = call(in_place); !called.ok()) return std::move(called).status();
    }
    if (Status s = communicator_->synchronize(); !s.ok()) return s;
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    return took.count() / batch;
  }

  Result<double> time_fresh(bool in_place, int batch) {
    std::chrono::duration<double, std::micro> took{};
    for (int i = 0; i < batch; ++i) {
      if (Status s = Memory::zero(send_.span()); !s.ok()) return s;
      if (Status s = Memory::zero(recv_.span()); !s.ok()) return s;
      if (Status s = communicator_->barrier_wait(); !s.ok()) return s;
      const auto begin = std::chrono::steady_clock::now();
      if (auto called = call(in_place); !called.ok()) return std::move(called).status();
      if (Status s = communicator_->synchronize(); !s.ok()) return s;
      took += std::chrono::steady_clock::now() - begin;
    }
    return took.count() / batch;
  }

  // Rank 0 decides, since all must call equally often.
  Result<int> batch_size(bool in_place) {
    constexpr int kProbes = 50;
    int probes = 1;
    Result<double> once = time(in_place, probes);
    if (!once.ok()) return std::move(once).status();
    std::vector<std::int32_t> batch(1);
    const auto decide = [&](double us) {
      batch[0] = static_cast<std::int32_t>(
          std::min(1000.0, std::max(1.0, std::ceil(Memory::kShortestSample / std::max(us, 1e-3)))));
      return agree(batch);
    };
    if (Status s = decide(*once); !s.ok()) return s;
    if (batch[0] == 1) return 1;
    Result<double> many = time(in_place, kProbes);
    if (!many.ok()) return std::move(many).status();
    if (Status s = decide(*many); !s.ok()) return s;
    return static_cast<int>(batch[0]);
  }

  template <class U>
  Status agree(std::vector<U>& values) {
    auto buffer = Memory::template make<U>(*communicator_, values.size(), false);
    if (!buffer.ok()) return std::move(buffer).status();
    if (Status s = Memory::upload(values, buffer->span()); !s.ok()) return s;
    if (Status s = communicator_->broadcast(buffer->span(), 0); !s.ok()) return s;
    return Memory::download(buffer->span(), values);
  }

  // Means over ranks of times; the total of wrong elements.
  Status share(const Statistics& own, Figures& figures) {
    std::vector<double> values{own.p50, own.p99, own.mean, own.spread,
                               static_cast<double>(figures.wrong < 0 ? 0 : figures.wrong)};
    auto buffer = Memory::template make<double>(*communicator_, values.size(), false);
    if (!buffer.ok()) return std::move(buffer).status();
    if (Status s = Memory::upload(values, buffer->span()); !s.ok()) return s;
    if (Status s = communicator_->all_reduce(buffer->span()); !s.ok()) return s;
    if (Status s = communicator_->synchronize(); !s.ok()) return s;
    if (Status s = Memory::download(buffer->span(), values); !s.ok()) return s;
    const auto n = static_cast<double>(world_);
    figures.p50 = values[0] / n;
    figures.p99 = values[1] / n;
    figures.mean = values[2] / n;
    figures.spread = values[3] / n;
    if (figures.wrong >= 0) figures.wrong = static_cast<std::int64_t>(values[4]);
    return {};
  }

  // One more call on known input.
  Result<std::int64_t> verify(bool in_place) {
    const bool own_block =
        in_place && (traits_->kind == Kind::all_gather || traits_->kind == Kind::gather);
    std::vector<T> input(send_.span().size());
    const std::size_t offset = own_block ? static_cast<std::size_t>(rank_) * count_ : 0;
    for (std::size_t i = 0; i < input.size(); ++i) {
      const bool given = !own_block || (i >= offset && i < offset + count_);
      input[i] = from_double<T>(given ? contribution(rank_, i - offset, options_->op) : 0);
    }
    if (Status s = Memory::upload(input, send_.span()); !s.ok()) return s;
    if (!in_place) std::fill(input.begin(), input.end(), from_double<T>(0));
    if (Status s = Memory::upload(input, recv_.span()); !s.ok()) return s;
    if (Status s = communicator_->barrier_wait(); !s.ok()) return s;
    Result<DeviceSpan<T>> result = call(in_place);
    if (!result.ok()) return std::move(result).status();
    if (Status s = communicator_->synchronize(); !s.ok()) return s;
    std::vector<T> output(result->size());
    if (Status s = Memory::download(*result, output); !s.ok()) return s;
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < output.size(); ++i) wrong += is_right(output[i], i) ? 0 : 1;
    return wrong;
  }

  bool is_right(T value, std::size_t i) const {
    const double exact = expected(i);
    if (options_->op == ReduceOp::avg && traits_->reduces && !std::is_integral_v<T>) {
      const double error = std::abs(to_double(value) - exact);
      return error <= average_tolerance<T>(static_cast<int>(world_)) * std::max(exact, 1.0);
    }
    return to_double(value) == to_double(from_double<T>(exact));
  }

  double expected(std::size_t i) const {
    const auto from = static_cast<int>(i / count_);
    const std::size_t within = i % count_;
    const int world = static_cast<int>(world_);
    constexpr bool kInteger = std::is_integral_v<T>;
    const std::size_t own_offset = static_cast<std::size_t>(rank_) * count_;
    switch (traits_->kind) {
      case Kind::all_reduce:
      case Kind::reduce: return reduced(world, i, options_->op, kInteger);
      case Kind::reduce_scatter: return reduced(world, own_offset + i, options_->op, kInteger);
      case Kind::all_gather:
      case Kind::gather: return contribution(from, within, options_->op);
      case Kind::broadcast: return contribution(options_->root, i, options_->op);
      case Kind::scatter: return contribution(options_->root, own_offset + i, options_->op);
      case Kind::all_to_all: return contribution(from, own_offset + within, options_->op);
      case Kind::send_recv: return contribution(previous(), i, options_->op);
      case Kind::barrier: break;
    }
    return 0;
  }

  Comm* communicator_;
  const Options* options_;
  const OperationTraits* traits_;
  std::size_t count_;  ///< Elements of one rank's block.
  std::size_t world_;
  int rank_;
  Buffer send_;
  Buffer recv_;
};

/// The bounds of all sizes, for `--bound`: zeros where nothing bounds, or nobody knows.
template <class Comm>
Result<std::vector<double>> bounds(Comm& communicator, const Options& options) {
  std::vector<double> found(sizes(options).size(), 0);
  if constexpr (UsesHostMemory<typename Comm::BackendType>) {
    const Kind kind = find_operation(options.operation)->kind;
    const double factor = bus_factor(kind, communicator.world_size());
    if (!options.bound || communicator.world_size() == 1 || factor == 0) return found;
    const auto moved = [&](std::size_t bytes) {
      return static_cast<std::size_t>(factor * static_cast<double>(bytes));
    };
    auto copy = NeighbourCopy<Comm>::make(communicator, moved(sizes(options).back()));
    if (!copy.ok()) return std::move(copy).status();
    const bool copies = receives(kind, communicator.rank(), options.root);
    for (std::size_t i = 0; const std::size_t bytes : sizes(options)) {
      Result<double> bound = copy->bandwidth(moved(bytes), options.iterations, copies);
      if (!bound.ok()) return std::move(bound).status();
      found[i++] = *bound;
    }
  }
  return found;
}

/// All sizes of `run.options`; rank 0 prints.
template <class Memory, class Comm>
Status measure(Comm& communicator, Run& run) {
  const OperationTraits& traits = *find_operation(run.options.operation);
  const auto world = static_cast<std::size_t>(communicator.world_size());
  const std::size_t element = size_of(run.options.type);
  if (traits.has_root && run.options.root >= communicator.world_size()) {
    return make_error(StatusCode::invalid_argument, 0, "comm_perf: -r %d: the world has %d ranks",
                      run.options.root, communicator.world_size());
  }
  run.uses_cores = UsesHostMemory<typename Comm::BackendType>;
  if (communicator.rank() == 0) print_header(run);
  if (Status s = settle<Memory>(communicator); !s.ok()) return s;
  Result<std::vector<double>> bound = bounds(communicator, run.options);
  if (!bound.ok()) return std::move(bound).status();
  for (std::size_t i = 0; const std::size_t bytes : sizes(run.options)) {
    Row row;
    row.bound = (*bound)[i++];
    const std::size_t count = bytes / element / (traits.splits_size ? world : 1);
    if (count == 0 && traits.kind != Kind::barrier) continue;
    row.count = count;
    row.bytes = count * element * (traits.splits_size ? world : 1);
    Status done = with_type(run.options.type, [&]<class T>(T) -> Status {
      auto measurement = Measurement<T, Comm, Memory>::make(communicator, run.options,
                                                            std::max<std::size_t>(count, 1));
      if (!measurement.ok()) return std::move(measurement).status();
      for (const bool in_place : {false, true}) {
        Result<Figures> figures = measurement->run(in_place, row.bytes);
        if (!figures.ok()) return std::move(figures).status();
        (in_place ? row.in_place : row.out_of_place) = *figures;
      }
      return {};
    });
    if (!done.ok()) return done;
    if (communicator.rank() == 0) print_row(run, row);
    run.rows.push_back(row);
  }
  if (communicator.rank() == 0) print_summary(run);
  return {};
}

}  // namespace comm::perf
