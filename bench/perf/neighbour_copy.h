#pragma once

/// `NeighbourCopy` is what a collective in host memory is held to: how fast the ranks, all at once, copy
/// what their neighbours have just written. No algorithm brings a byte to a rank in less. A call has to
/// bring `bus_factor` bytes for each byte of its size, so bus bandwidth over this one says how near it is.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "bench/perf/operation.h"
#include "bench/perf/statistics.h"
#include "comm/device_span.h"
#include "comm/reduce_op.h"
#include "comm/result.h"

namespace comm::perf {

template <class Comm>
class NeighbourCopy {
 public:
  /// Below it the way of a cache line counts, not how many can be on the way.
  static constexpr std::size_t kLeast = 4096;

  /// Collective. `most` is the most bytes that a rank will copy.
  static Result<NeighbourCopy> make(Comm& communicator, std::size_t most) {
    NeighbourCopy made(communicator, (most + kPage - 1) / kPage * kPage);
    if (Status s = made.share_memory(); !s.ok()) return s;
    return made;
  }

  NeighbourCopy(NeighbourCopy&& other) noexcept
      : communicator_(other.communicator_),
        block_(other.block_),
        base_(std::exchange(other.base_, nullptr)) {}
  NeighbourCopy& operator=(NeighbourCopy&&) = delete;
  ~NeighbourCopy() {
    if (base_ != nullptr) ::munmap(base_, total());
  }

  /// Collective: GB/s of the slowest rank, `samples` copies of `bytes` each. Only ranks that `receive`
  /// copy; 0 below `kLeast`.
  Result<double> bandwidth(std::size_t bytes, int samples, bool receives) {
    if (bytes < kLeast) return 0.0;
    const int next = (communicator_->rank() + 1) % communicator_->world_size();
    std::vector<double> times;
    for (int i = 0; i < samples; ++i) {
      // Everybody reads what was written before the barrier, while the other half is being written.
      if (Status s = communicator_->barrier_wait(); !s.ok()) return s;
      const auto begin = std::chrono::steady_clock::now();
      if (receives) std::memcpy(half(communicator_->rank(), i + 1), half(next, i), bytes);
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - begin;
      // Who only gives writes all the same: what is read was written just now.
      if (!receives) std::memset(half(communicator_->rank(), i + 1), i, bytes);
      times.push_back(took.count());
    }
    std::vector<double> slowest(1, receives ? statistics_of(std::move(times)).p50 : 0);
    if (Status s = communicator_->all_reduce(DeviceSpan<double>(slowest), ReduceOp::max); !s.ok())
      return s;
    return static_cast<double>(bytes) / slowest[0] / 1e3;
  }

 private:
  static constexpr std::size_t kPage = 4096;

  NeighbourCopy(Comm& communicator, std::size_t block)
      : communicator_(&communicator), block_(block) {}

  std::size_t total() const {
    return block_ * 2 * static_cast<std::size_t>(communicator_->world_size());
  }
  std::byte* half(int rank, int which) const {
    return base_ + block_ * (2 * static_cast<std::size_t>(rank) + static_cast<unsigned>(which) % 2);
  }

  Status share_memory() {
    std::vector<std::int64_t> where(2);
    int fd = -1;
    if (communicator_->rank() == 0) {
      fd = ::memfd_create("comm_perf", MFD_CLOEXEC);
      if (fd >= 0 && ::ftruncate(fd, static_cast<off_t>(total())) != 0)
        ::close(std::exchange(fd, -1));
      where = {::getpid(), fd};
    }
    if (Status s = communicator_->broadcast(DeviceSpan<std::int64_t>(where), 0); !s.ok()) return s;
    if (communicator_->rank() != 0 && where[1] >= 0) {
      const std::string path =
          "/proc/" + std::to_string(where[0]) + "/fd/" + std::to_string(where[1]);
      fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    }
    void* mapped =
        fd < 0 ? MAP_FAILED : ::mmap(nullptr, total(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    const int error = errno;
    // Rank 0's descriptor is what the others open.
    Status met = communicator_->barrier_wait();
    if (fd >= 0) ::close(fd);
    if (mapped == MAP_FAILED) {
      return make_error(StatusCode::internal, error,
                        "comm_perf --bound: rank %d shares no memory with the others: %s",
                        communicator_->rank(), std::strerror(error));
    }
    base_ = static_cast<std::byte*>(mapped);
    std::memset(half(communicator_->rank(), 0), 1, 2 * block_);
    return met;
  }

  Comm* communicator_;
  std::size_t block_;
  std::byte* base_ = nullptr;
};

/// Whether a rank gets any bytes from the others.
constexpr bool receives(Kind kind, int rank, int root) {
  switch (kind) {
    case Kind::broadcast:
    case Kind::scatter: return rank != root;
    case Kind::reduce:
    case Kind::gather: return rank == root;
    default: return kind != Kind::barrier;
  }
}

}  // namespace comm::perf
