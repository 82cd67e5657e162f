#pragma once

/// Ranks as threads of this process, with just enough of a communicator for the model: a sum in rank
/// order. It can be told to forget one all-reduce, as an engine with a fault would.

#include <barrier>
#include <cstddef>
#include <vector>

#include "comm/device_span.h"
#include "comm/reduce_op.h"
#include "comm/status.h"
#include "comm/stream.h"

namespace example {

class Together {
 public:
  explicit Together(int ranks) : buffers_(static_cast<std::size_t>(ranks)), barrier_(ranks) {}

  template <class T>
  void all_reduce(int rank, comm::DeviceSpan<T> buffer) {
    buffers_[static_cast<std::size_t>(rank)] = buffer.data();
    barrier_.arrive_and_wait();
    std::vector<T> sums(buffer.size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      float sum = 0;
      for (const void* other : buffers_) sum += static_cast<const T*>(other)[i];
      sums[i] = T(sum);
    }
    barrier_.arrive_and_wait();
    for (std::size_t i = 0; i < sums.size(); ++i) buffer.data()[i] = sums[i];
  }

 private:
  std::vector<const void*> buffers_;
  std::barrier<> barrier_;
};

class ThreadRank {
 public:
  ThreadRank(Together& together, int rank, int ranks, int forgotten = -1)
      : together_(together), rank_(rank), ranks_(ranks), forgotten_(forgotten) {}

  int rank() const { return rank_; }
  int world_size() const { return ranks_; }

  template <class T>
  comm::Status all_reduce(comm::DeviceSpan<T> buffer, comm::ReduceOp = comm::ReduceOp::sum,
                          comm::Stream = {}) {
    if (calls_++ != forgotten_) together_.all_reduce(rank_, buffer);
    return {};
  }

 private:
  Together& together_;
  int rank_;
  int ranks_;
  int forgotten_;  ///< The number of the call that does nothing, on all ranks.
  int calls_ = 0;
};

}  // namespace example
