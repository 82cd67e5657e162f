#pragma once

/// `SingleGpu` is the world of one rank. There is nobody to talk to, so every operation succeeds
/// at once and leaves every buffer alone: all is `constexpr` and inlines to nothing, down to the
/// branch on the result. It includes nothing of CUDA, NCCL, sockets or threads. Arguments are not
/// looked at, since looking would cost; put `Checked<>` around it to have them looked at.
///
/// Refused, by constants that cost nothing: `recv_command_u32` (the one rank is the root), symmetric
/// memory (no peer), and pre-multiplied sums (they would have to compute).

#include "comm/backend.h"
#include "comm/backend_defaults.h"

namespace comm {

namespace detail {
inline constexpr StatusError kNothingMultiplies{
    StatusCode::unsupported, true, 0,
    "premul_sum: a world of one rank moves no data and so cannot scale it; scale the buffer "
    "itself, or use another backend"};
}  // namespace detail

class SingleGpu : public BackendDefaults<SingleGpu> {
 public:
  static constexpr bool moves_data = false;

  struct Config {};

  static constexpr Result<SingleGpu> create(const Config&) { return SingleGpu(); }

  static constexpr int rank() { return 0; }
  static constexpr int world_size() { return 1; }

  static constexpr Status all_reduce(const ops::AllReduce& op) { return reduced(op.op); }
  static constexpr Status all_gather(const ops::AllGather&) { return {}; }
  static constexpr Status reduce_scatter(const ops::ReduceScatter& op) { return reduced(op.op); }
  static constexpr Status broadcast(const ops::Broadcast&) { return {}; }
  static constexpr Status recv_command_u32(const ops::RecvCommandU32&) {
    return Status(detail::kRootReceivesNoCommand);
  }
  static constexpr Status reduce(const ops::Reduce& op) { return reduced(op.op); }
  static constexpr Status gather(const ops::Gather&) { return {}; }
  static constexpr Status scatter(const ops::Scatter&) { return {}; }
  static constexpr Status all_to_all(const ops::AllToAll&) { return {}; }
  static constexpr Status all_to_all_v(const ops::AllToAllV&) { return {}; }
  static constexpr Status send_to(const ops::SendTo&) { return {}; }
  static constexpr Status recv_from(const ops::RecvFrom&) { return {}; }
  static constexpr Status send_recv(const ops::SendRecv&) { return {}; }
  static constexpr Status barrier(const ops::Barrier&) { return {}; }
  static constexpr Result<SingleGpu> split(const ops::Split&) { return SingleGpu(); }
  static constexpr Result<SingleGpu> shrink(const ops::Shrink&) { return SingleGpu(); }

 private:
  static constexpr Status reduced(ReduceOp op) {
    if (op.kind() == ReduceOp::Kind::premul_sum) return Status(detail::kNothingMultiplies);
    return {};
  }
};

static_assert(Backend<SingleGpu>);
static_assert(Creatable<SingleGpu>);

}  // namespace comm
