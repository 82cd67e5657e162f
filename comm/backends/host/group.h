#pragma once

/// `Group` collects the operations between `group_start` and `group_end` and then runs them: first
/// the collectives, in their order, then all point-to-point operations together. Which comes first
/// is the same on all ranks, however they mixed them.

#include <cstddef>
#include <variant>
#include <vector>

#include "comm/backends/host/collectives.h"
#include "comm/backends/host/transfer.h"
#include "comm/operations.h"

namespace comm::detail::host {

/// One operation, run at once.
Status perform(const Setting& on, const ops::AllReduce& op);
Status perform(const Setting& on, const ops::AllGather& op);
Status perform(const Setting& on, const ops::ReduceScatter& op);
Status perform(const Setting& on, const ops::Broadcast& op);
Status perform(const Setting& on, const ops::RecvCommandU32& op);
Status perform(const Setting& on, const ops::Reduce& op);
Status perform(const Setting& on, const ops::Gather& op);
Status perform(const Setting& on, const ops::Scatter& op);
Status perform(const Setting& on, const ops::AllToAll& op);
Status perform(const Setting& on, const ops::AllToAllV& op);
Status perform(const Setting& on, const ops::SendTo& op);
Status perform(const Setting& on, const ops::RecvFrom& op);
Status perform(const Setting& on, const ops::SendRecv& op);
Status perform(const Setting& on, const ops::Barrier& op);

class Group {
 public:
  bool is_open() const { return depth_ != 0; }
  void open() { ++depth_; }

  /// Runs what was collected if this closes the outermost group. `usable` is what the communicator
  /// says of itself; with an error nothing is run. The depth goes down whatever happens.
  Status close(const Setting& on, Status usable);

  template <class Op>
  void add(const Op& op) {
    collectives_.push_back(op);
  }
  void add(const ops::AllToAllV& op, int size);
  void add(const ops::SendTo& op);
  void add(const ops::RecvFrom& op);
  void add(const ops::SendRecv& op);

  /// Ends the group with this error instead of running it.
  void spoil(const Status& error);

 private:
  /// The caller's counts are not there any more when the group ends.
  struct KeptAllToAllV {
    ops::AllToAllV op;
    std::vector<std::size_t> counts;
  };
  using Collective = std::variant<ops::AllReduce, ops::AllGather, ops::ReduceScatter,
                                  ops::Broadcast, ops::RecvCommandU32, ops::Reduce, ops::Gather,
                                  ops::Scatter, ops::AllToAll, KeptAllToAllV, ops::Barrier>;

  static Status perform_kept(const Setting& on, const KeptAllToAllV& kept);

  int depth_ = 0;
  Status spoiled_;
  std::vector<Collective> collectives_;
  std::vector<Transfer> transfers_;
};

}  // namespace comm::detail::host
