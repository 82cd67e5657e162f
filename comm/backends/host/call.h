#pragma once

/// `Call` is one collective operation on its way through the ticks of a team. Every tick of it shows
/// what it is (operation, type, count, reduction, root), and every rank compares what the others
/// show: ranks that make different calls all get `mismatch`, in the first tick and with both calls
/// in the message, instead of a hang.
///
///     Call call(team, {Operation::barrier}, 0, timeout_ns);
///     call.post();
///     return call.await();

#include <cstddef>
#include <cstdint>

#include "comm/backends/host/team.h"
#include "comm/operations.h"
#include "comm/status.h"

namespace comm::detail::host {

class Call {
 public:
  Call(Team& team, Meta meta, std::size_t count, std::int64_t timeout_ns)
      : Call(team, meta, count, timeout_ns, meta.operation) {}

  /// `name` is what messages call it: two operations may be one on the way.
  Call(Team& team, Meta meta, std::size_t count, std::int64_t timeout_ns, Operation name)
      : team_(team), meta_(meta.word()), count_(count), timeout_ns_(timeout_ns), operation_(name) {}

  Team& team() const { return team_; }
  int rank() const { return team_.rank(); }
  int size() const { return team_.size(); }
  Operation operation() const { return operation_; }

  /// Takes the next tick. Up to `kInline` bytes go along.
  void post(const void* payload = nullptr, std::size_t bytes = 0) {
    team_.post(meta_, count_, payload, bytes);
  }

  /// Waits until every rank has taken this tick, in the same call.
  Status await() {
    const std::uint32_t tick = team_.tick();
    const std::uint64_t expected = meta_ | tick;
    for (int r = 0; r < team_.size(); ++r) {
      const Post& post = team_.posts(r)[tick & 1];
      for (int i = team_.quick_looks(); i >= 0; --i) {
        if (post.word.load(std::memory_order_acquire) == expected) break;
        if (i == 0) [[unlikely]]
          return await_slowly();
      }
      if (post.count.load(std::memory_order_relaxed) != count_) [[unlikely]]
        return mismatch(r);
    }
    return {};
  }

  /// `post` and `await`.
  Status meet(const void* payload = nullptr, std::size_t bytes = 0) {
    post(payload, bytes);
    return await();
  }

  /// Where this rank puts what the others shall see in the next tick.
  std::byte* next_slot() const { return team_.slot(rank(), team_.tick() + 1); }
  std::byte* next_out_slot() const { return team_.out_slot(rank(), team_.tick() + 1); }

  // What ranks have shown in this tick.
  const std::byte* slot(int r) const { return team_.slot(r, team_.tick()); }
  const std::byte* payload(int r) const { return team_.posts(r)[team_.tick() & 1].payload; }

  /// Makes all ranks fail.
  Status fail(const Status& cause) { return team_.fail(operation_, cause); }

 private:
  Status await_slowly();
  [[gnu::cold]] Status mismatch(int other);

  Team& team_;
  std::uint64_t meta_;
  std::uint64_t count_;
  std::int64_t timeout_ns_;
  Operation operation_;
};

}  // namespace comm::detail::host
