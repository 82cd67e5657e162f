#pragma once

/// `RecorderRing` keeps the last submissions of one communicator in slots of one cache line each.
/// Recording takes no lock and allocates nothing; any number of threads may record at once, each into
/// a slot that it took by counting up. Readers never hold a writer up: a slot's stamp tells whether
/// what was read of it belongs together (a seqlock whose every word is atomic, so that no thread ever
/// races with another).
///
///     std::uint64_t sequence = RecorderRing::begin_collective(ring, what, count, stream, extra);
///     … the operation …
///     RecorderRing::complete(ring, sequence);
///
/// A slot's stamp is its sequence number, from 1. Its outcome is one word (low bits of the lap, state,
/// code, ticks taken), written when the operation returns and again when it is seen complete; the lap
/// keeps a late writer from being taken for the slot's next owner.

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/health/flight_recorder.h"
#include "comm/health/recorder_clock.h"
#include "comm/operations.h"
#include "comm/status.h"

namespace comm::detail {

/// How far a submission has come.
enum class SubmissionState : std::uint8_t { started, returned, complete, failed };

/// What is put into a slot: see `recorded_words` in recorded_entry.h.
struct RecordedWords {
  std::uint64_t what = 0;   ///< Operation, type, reduction, flags (8 bits each), root or peer (32).
  std::uint64_t count = 0;  ///< As in `OperationInfo`.
  std::uint64_t stream = 0;  ///< The handle; meaningful where the flags say so.
  std::uint64_t extra = 0;   ///< What the operation alone has.
  std::uint64_t source = 0;  ///< Of send_recv.
};

/// One submission as it was read.
struct RecordedEntry {
  std::uint64_t sequence;
  RecordedWords words;
  std::uint64_t epoch;
  std::uint64_t collective;  ///< Its number among the epoch's collectives, from 1; 0: it is none.
  std::uint64_t submitted;   ///< Ticks.
  std::uint64_t taken;       ///< Ticks from then until it was seen complete, or failed.
  SubmissionState state;
  StatusCode code;
};

class RecorderRing {
 public:
  // Flags of a submission.
  static constexpr std::uint64_t kStreamGiven = 1;
  static constexpr std::uint64_t kInGroup = 2;
  static constexpr std::uint64_t kCollective = 4;
  static constexpr int kFlagsShift = 24;

  /// `options` are complete. Null where there is no memory for the slots.
  static std::shared_ptr<RecorderRing> make(const RecorderOptions& options, int rank,
                                            int world_size, std::uint64_t epoch,
                                            bool completes_on_return) noexcept;
  RecorderRing(const RecorderRing&) = delete;
  RecorderRing& operator=(const RecorderRing&) = delete;
  ~RecorderRing();

  /// Takes the next slot; returns its sequence number, or 0 where nothing is recorded: there is no
  /// ring, or it is frozen. After a failure that made the communicator unhealthy, what is refused is
  /// counted and not recorded, for it would push out what led to the failure.
  ///
  /// Calls, and not inline: a backend's own operations are to stay small enough to be inlined.
  static std::uint64_t begin_collective(RecorderRing* ring, std::uint64_t what, std::uint64_t count,
                                        std::uint64_t stream, std::uint64_t extra) noexcept;
  static std::uint64_t begin_other(RecorderRing* ring, const RecordedWords& words,
                                   bool even_frozen) noexcept;

  // These do nothing for sequence number 0.

  /// The call has returned without an error; what it started goes on.
  static void returned(RecorderRing* ring, std::uint64_t sequence) noexcept;
  /// What it started is done.
  static void complete(RecorderRing* ring, std::uint64_t sequence) noexcept;
  /// One or the other: what is submitted in a group is done when the group is.
  static void complete_unless_in_group(RecorderRing* ring, std::uint64_t sequence) noexcept;

  /// The call has failed. Unless the arguments alone are to blame, the first failure of an epoch is
  /// remembered with its message and dumped.
  [[gnu::cold]] void failed(std::uint64_t sequence, const Status& status, bool is_healthy) noexcept;

  /// All that came before on the stream, or the communicator's own, is done.
  void stream_done(std::uint64_t sequence, std::uint64_t stream, bool is_given) noexcept;

  void group_opened() noexcept;
  /// `completes`: what was submitted in the group that ends is done.
  void group_closed(bool completes, std::uint64_t sequence) noexcept;

  /// `stream` waits for a submission of the communicator's own stream.
  void joined(std::uint64_t sequence, std::uint64_t stream, bool is_given) noexcept;

  /// The communicator is a new one behind the same handle.
  void rebuilt(int rank, int world_size, std::uint64_t epoch) noexcept;

  /// Epoch and, of a collective, its number, for the name of what a split made.
  std::uint64_t place_of(std::uint64_t sequence) const noexcept {
    return slot_of(sequence).place.load(std::memory_order_relaxed);
  }

  bool completes_on_return() const noexcept { return completes_on_return_; }
  // What a dump is made of.
  struct Notes;
  std::vector<RecordedEntry> read() const;
  std::uint64_t submissions() const noexcept { return sequence_.load(std::memory_order_relaxed); }
  std::uint64_t refused() const noexcept { return refused_.load(std::memory_order_relaxed); }
  std::uint64_t epoch() const noexcept {
    return place_.load(std::memory_order_relaxed) >> kNumberBits;
  }
  /// Collectives submitted in this epoch.
  std::uint64_t collectives() const noexcept {
    return (place_.load(std::memory_order_relaxed) & kNumberMask) - 1;
  }
  std::size_t capacity() const noexcept { return mask_ + 1; }
  const RecorderClock& clock() const noexcept { return clock_; }
  Notes& notes() const noexcept { return *notes_; }
  const RecorderOptions& options() const noexcept;

  static constexpr int kNumberBits = 44;
  static constexpr std::uint64_t kNumberMask = (std::uint64_t{1} << kNumberBits) - 1;

 private:
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> stamp{0};
    std::atomic<std::uint64_t> submitted{0};
    std::atomic<std::uint64_t> outcome{0};
    std::atomic<std::uint64_t> what{0};
    std::atomic<std::uint64_t> place{0};
    std::atomic<std::uint64_t> count{0};
    std::atomic<std::uint64_t> stream{0};
    std::atomic<std::uint64_t> extra{0};
  };

  // The outcome: lap (8 bits), complete, returned, code (4), ticks taken (50: four days at 3 GHz).
  static constexpr int kTakenBits = 50;
  static constexpr std::uint64_t kMostTaken = (std::uint64_t{1} << kTakenBits) - 1;
  static constexpr int kCodeShift = kTakenBits;
  static constexpr std::uint64_t kReturned = std::uint64_t{1} << 54;
  static constexpr std::uint64_t kComplete = std::uint64_t{1} << 55;
  static constexpr int kLapShift = 56;

  RecorderRing(std::unique_ptr<Slot[]> slots, std::size_t count, std::unique_ptr<Notes> notes,
               std::uint64_t epoch, bool completes_on_return) noexcept;

  Slot& slot_of(std::uint64_t sequence) const noexcept { return slots_[sequence & mask_]; }
  std::uint64_t lap_of(std::uint64_t sequence) const noexcept {
    return sequence >> lap_bits_ << kLapShift;
  }
  template <bool kIsCollective>
  std::uint64_t record(const RecordedWords& words, std::uint64_t ticks) noexcept;
  static std::uint64_t begin_otherwise(RecorderRing* ring, std::uint64_t what, std::uint64_t count,
                                       std::uint64_t stream, std::uint64_t extra) noexcept;
  void group_done(std::uint64_t sequence) noexcept;
  std::uint64_t taken(const Slot& slot) const noexcept;
  void set_frozen(bool frozen) noexcept;
  bool read_slot(std::uint64_t sequence, RecordedEntry& entry) const noexcept;
  enum class Marked { now, before, not_at_all };
  /// Makes what has returned complete.
  Marked mark(std::uint64_t sequence) noexcept;
  /// The oldest submission that may still be in the ring when `sequence` is the newest.
  std::uint64_t oldest(std::uint64_t sequence) const noexcept {
    return sequence > mask_ ? sequence - mask_ : 1;
  }

  const std::unique_ptr<Slot[]> slots_;
  const std::uint64_t mask_;
  const int lap_bits_;
  const bool completes_on_return_;
  const RecorderClock clock_;
  std::atomic<bool> frozen_{false};
  std::atomic<bool> is_plain_;  ///< Not frozen, and the clock is a counter.
  std::atomic<std::uint32_t> depth_{0};
  std::atomic<std::uint64_t> group_flag_{0};  ///< In its place in `RecordedWords::what`.
  std::atomic<std::uint64_t> place_;
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> joined_{
      0};  ///< Tickets joined to a stream that nothing waited for since.
  const std::unique_ptr<Notes> notes_;
};

}  // namespace comm::detail
