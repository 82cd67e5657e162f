#pragma once

/// `Nvtx<B>` puts an NVTX range around each operation, so that a profiler (Nsight Systems) shows what
/// the engine's threads did in comm: the range's name is the operation, its payload the bytes of this
/// rank's contribution, its domain "comm".
///
///     comm::Communicator<comm::Nvtx<comm::Nccl>> c = …;       // or bazel build --config=nvtx
///     nsys profile --trace=cuda,nvtx ./engine
///
/// The range is the time that the call takes on the host; what it has put on a stream the profiler
/// shows by itself. Without a profiler a call costs two indirect calls that return at once, over a
/// backend that moves no data nothing at all. Needs the CUDA toolkit's headers, and no library: the
/// profiler brings it.
///
/// Thread safety: as the backend's.

#include <cstdint>
#include <utility>

#include "comm/decorator.h"

namespace comm {

namespace detail {

/// From here to the end of the scope.
class NvtxRange {
 public:
  NvtxRange(Operation operation, std::uint64_t bytes) noexcept;
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
  ~NvtxRange();
};

/// Of one rank's contribution.
template <class Op>
std::uint64_t bytes_of(const Op& op, [[maybe_unused]] int world_size) {
  const OperationInfo info = info_of(op);
  std::uint64_t count = info.count;
  if constexpr (requires { op.send_counts; })
    for (int i = 0; i < world_size; ++i) count += op.send_counts[i];
  return count * size_of(info.type);
}

}  // namespace detail

template <Backend B>
class Nvtx : public Decorator<Nvtx<B>, B> {
 public:
  using Decorator<Nvtx, B>::Decorator;

  template <class Op, class Next>
  auto around(const Op& op, Next next) -> decltype(next()) {
    const detail::NvtxRange range(Op::operation, detail::bytes_of(op, this->world_size()));
    return next();
  }
};

template <class B>
Nvtx(B) -> Nvtx<B>;

}  // namespace comm
