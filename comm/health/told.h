#pragma once

/// `Told` remembers, for each thread, of which failure of a communicator it was told last. It is how
/// `attempt_reconnect` tells the thread that comes late, after another one has rebuilt the
/// communicator for the failure both saw, from one that asks for a rebuild of its own accord. Written
/// where an error is made, so an operation that succeeds pays nothing; no lock, no allocation.
///
///     told_.remember(epoch);                     // an error of this epoch goes to this thread
///     if (told_.take_earlier_than(epoch)) ...    // what it saw was repaired meanwhile
///
/// A thread keeps the last few communicators that failed under it; what it forgets costs one rebuild
/// more than was needed. Thread-safe.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace comm::detail {

class Told {
 public:
  Told() : number_(next_number()) {}
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;

  /// The calling thread has learned that the communicator failed in `epoch`.
  void remember(std::uint64_t epoch) const noexcept {
    Entry& entry = own_entry();
    entry = {number_, epoch};
  }

  /// Whether what the calling thread was told of happened before `epoch`. Forgets it.
  bool take_earlier_than(std::uint64_t epoch) const noexcept {
    Entry& entry = own_entry();
    const bool earlier = entry.number == number_ && entry.epoch < epoch;
    entry = {};
    return earlier;
  }

 private:
  struct Entry {
    std::uint64_t number = 0;
    std::uint64_t epoch = 0;
  };

  /// An address would do, were it not used again for the next communicator.
  static std::uint64_t next_number() noexcept {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
  }

  Entry& own_entry() const noexcept {
    thread_local std::array<Entry, 8> entries;
    thread_local std::size_t next = 0;
    for (Entry& entry : entries)
      if (entry.number == number_) return entry;
    return entries[next++ % entries.size()];
  }

  const std::uint64_t number_;
};

}  // namespace comm::detail
