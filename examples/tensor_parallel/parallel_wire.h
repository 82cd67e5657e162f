#pragma once

/// The wire of a rank among others: partial sums travel as FP32, or rounded to BF16, which halves the
/// bytes. It also keeps count, which is what the table shows.

#include <chrono>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "comm/float_types.h"
#include "comm/reduce_op.h"
#include "comm/stream.h"
#include "examples/tensor_parallel/wire.h"

namespace example {

enum class Element { f32, bf16 };

/// What the all-reduces of one rank came to. The time is that of the calls, and so holds what this
/// rank waited for slower ones.
struct Traffic {
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;
  double seconds = 0;
};

template <class Memory>
class ParallelWire {
 public:
  ParallelWire(Memory& memory, Element element) : memory_(memory), element_(element) {}

  template <class Communicator>
  comm::Status all_reduce(Communicator& communicator, const Partial& partial) {
    const auto start = std::chrono::steady_clock::now();
    comm::Status s = element_ == Element::f32 ? sum(communicator, partial.sum)
                                              : sum_rounded(communicator, partial.sum);
    traffic_.seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return s;
  }

  const Traffic& traffic() const { return traffic_; }

 private:
  template <class Communicator, class T>
  comm::Status sum(Communicator& communicator, std::span<T> data) {
    ++traffic_.calls;
    traffic_.bytes += data.size_bytes();
    return memory_.lend(communicator, data, [&](auto span, comm::Stream stream) {
      return communicator.all_reduce(span, comm::ReduceOp::sum, stream);
    });
  }

  template <class Communicator>
  comm::Status sum_rounded(Communicator& communicator, std::span<float> data) {
    rounded_.resize(data.size());
    for (std::size_t i = 0; i < data.size(); ++i) rounded_[i] = comm::bf16(data[i]);
    comm::Status s = sum(communicator, std::span<comm::bf16>(rounded_));
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = rounded_[i];
    return s;
  }

  Memory& memory_;
  Element element_;
  Traffic traffic_;
  std::vector<comm::bf16> rounded_;
};

}  // namespace example
