#include "comm/health/recorder_ring.h"

#include <new>

#include "comm/health/recorded_entry.h"
#include "comm/health/recorder_dump.h"
#include "comm/health/recorder_notes.h"

namespace comm::detail {

std::shared_ptr<RecorderRing> RecorderRing::make(const RecorderOptions& options, int rank,
                                                 int world_size, std::uint64_t epoch,
                                                 bool completes_on_return) noexcept {
  if (rank < 0) return nullptr;  // A handle that refuses everything.
  std::unique_ptr<Slot[]> slots(new (std::nothrow) Slot[options.entries]);
  if (slots == nullptr) return nullptr;
  std::unique_ptr<Notes> notes(new (std::nothrow) Notes{.options = options,
                                                        .made = RecorderClock().read(),
                                                        .mutex = {},
                                                        .rank = rank,
                                                        .world_size = world_size,
                                                        .message = {}});
  if (notes == nullptr) return nullptr;
  return std::shared_ptr<RecorderRing>(new (std::nothrow) RecorderRing(
      std::move(slots), options.entries, std::move(notes), epoch, completes_on_return));
}

RecorderRing::RecorderRing(std::unique_ptr<Slot[]> slots, std::size_t count,
                           std::unique_ptr<Notes> notes, std::uint64_t epoch,
                           bool completes_on_return) noexcept
    : slots_(std::move(slots)),
      mask_(count - 1),
      lap_bits_(std::countr_zero(count)),
      completes_on_return_(completes_on_return),
      is_plain_(clock_.is_counter()),
      place_(epoch << kNumberBits | 1),
      notes_(std::move(notes)) {}

RecorderRing::~RecorderRing() = default;

const RecorderOptions& RecorderRing::options() const noexcept {
  return notes_->options;
}

template <bool kIsCollective>
[[gnu::always_inline]] inline std::uint64_t RecorderRing::record(const RecordedWords& words,
                                                                 std::uint64_t ticks) noexcept {
  const std::uint64_t sequence = sequence_.fetch_add(1, std::memory_order_relaxed) + 1;
  const std::uint64_t place =
      kIsCollective ? place_.fetch_add(1, std::memory_order_relaxed)
                    : (place_.load(std::memory_order_relaxed) & ~kNumberMask) | words.source;
  Slot& slot = slot_of(sequence);
  // Each release store carries the first one: a reader that sees any of them sees that the slot is
  // being written. The outcome is still that of an earlier lap, and says so.
  slot.stamp.store(sequence * 2 + 1, std::memory_order_relaxed);
  slot.submitted.store(ticks, std::memory_order_release);
  slot.what.store(words.what | group_flag_.load(std::memory_order_relaxed),
                  std::memory_order_release);
  slot.place.store(place, std::memory_order_release);
  slot.count.store(words.count, std::memory_order_release);
  slot.stream.store(words.stream, std::memory_order_release);
  slot.extra.store(words.extra, std::memory_order_release);
  slot.stamp.store(sequence * 2 + 2, std::memory_order_release);
  return sequence;
}

std::uint64_t RecorderRing::begin_collective(RecorderRing* ring, std::uint64_t what,
                                             std::uint64_t count, std::uint64_t stream,
                                             std::uint64_t extra) noexcept {
  // Nothing is called on this way but at its end, so it needs no stack.
  if (ring == nullptr || !ring->is_plain_.load(std::memory_order_relaxed)) [[unlikely]]
    return begin_otherwise(ring, what, count, stream, extra);
  return ring->record<true>({what, count, stream, extra, 0}, RecorderClock::counter());
}

std::uint64_t RecorderRing::begin_otherwise(RecorderRing* ring, std::uint64_t what,
                                            std::uint64_t count, std::uint64_t stream,
                                            std::uint64_t extra) noexcept {
  if (ring == nullptr) return 0;
  if (ring->frozen_.load(std::memory_order_relaxed)) {
    ring->refused_.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  return ring->record<true>({what, count, stream, extra, 0}, ring->clock_.ticks());
}

std::uint64_t RecorderRing::begin_other(RecorderRing* ring, const RecordedWords& words,
                                        bool even_frozen) noexcept {
  if (ring == nullptr) return 0;
  if (ring->frozen_.load(std::memory_order_relaxed) && !even_frozen) {
    ring->refused_.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  return ring->record<false>(words, ring->clock_.ticks());
}

void RecorderRing::set_frozen(bool frozen) noexcept {
  frozen_.store(frozen, std::memory_order_relaxed);
  is_plain_.store(!frozen && clock_.is_counter(), std::memory_order_relaxed);
}

std::uint64_t RecorderRing::taken(const Slot& slot) const noexcept {
  const std::uint64_t ticks = clock_.ticks() - slot.submitted.load(std::memory_order_relaxed);
  if (ticks <= kMostTaken) return ticks;
  // Counters of two processors may differ by a tick; an older one is no wait of centuries.
  return static_cast<std::int64_t>(ticks) < 0 ? 0 : kMostTaken;
}

void RecorderRing::returned(RecorderRing* ring, std::uint64_t sequence) noexcept {
  if (sequence == 0) [[unlikely]]
    return;
  ring->slot_of(sequence).outcome.store(ring->lap_of(sequence) | kReturned,
                                        std::memory_order_release);
}

void RecorderRing::complete(RecorderRing* ring, std::uint64_t sequence) noexcept {
  if (sequence == 0) return;
  Slot& slot = ring->slot_of(sequence);
  slot.outcome.store(ring->lap_of(sequence) | kReturned | kComplete | ring->taken(slot),
                     std::memory_order_release);
}

void RecorderRing::complete_unless_in_group(RecorderRing* ring, std::uint64_t sequence) noexcept {
  if (sequence != 0 && ring->group_flag_.load(std::memory_order_relaxed) != 0)
    returned(ring, sequence);
  else
    complete(ring, sequence);
}

void RecorderRing::failed(std::uint64_t sequence, const Status& status, bool is_healthy) noexcept {
  slot_of(sequence).outcome.store(lap_of(sequence) | kReturned |
                                      static_cast<std::uint64_t>(status.code()) << kCodeShift |
                                      taken(slot_of(sequence)),
                                  std::memory_order_release);
  if (status.code() == StatusCode::invalid_argument || status.code() == StatusCode::unsupported)
    return;
  if (!is_healthy) set_frozen(true);
  {
    const std::lock_guard<std::mutex> lock(notes_->mutex);
    if (notes_->has_failed) return;
    notes_->has_failed = true;
    notes_->failed_sequence = sequence;
    notes_->code = status.code();
    notes_->native_code = status.native_code();
    notes_->message = status.message();
  }
  dump_after_failure(*this);
}

RecorderRing::Marked RecorderRing::mark(std::uint64_t sequence) noexcept {
  const std::uint64_t outcome = slot_of(sequence).outcome.load(std::memory_order_acquire);
  if (outcome >> kLapShift != lap_of(sequence) >> kLapShift) return Marked::not_at_all;
  if ((outcome & kComplete) != 0) return Marked::before;
  const bool has_failed = (outcome >> kCodeShift & 0xf) != 0;
  if ((outcome & kReturned) == 0 || has_failed) return Marked::not_at_all;
  complete(this, sequence);
  return Marked::now;
}

void RecorderRing::stream_done(std::uint64_t sequence, std::uint64_t stream,
                               bool is_given) noexcept {
  const std::uint64_t last = oldest(sequence);
  std::uint64_t joined = joined_.load(std::memory_order_relaxed);
  for (std::uint64_t s = sequence - 1; s >= last; --s) {
    const Slot& slot = slot_of(s);
    if (slot.stamp.load(std::memory_order_acquire) != s * 2 + 2) continue;
    const RecordedWords words{.what = slot.what.load(std::memory_order_acquire)};
    if (!is_on_stream(operation_of(words)) || flag_of(words, kStreamGiven) != is_given) continue;
    if (is_given && slot.stream.load(std::memory_order_acquire) != stream) continue;
    const Marked marked = mark(s);
    if (marked == Marked::now && is_given && joined != 0 &&
        operation_of(words) == Operation::all_reduce_deferred)
      joined = joined_.fetch_sub(1, std::memory_order_relaxed) - 1;
    // A stream's work ends in order, so what comes before one that is complete was marked with it;
    // but for what was put into the order later, by a join.
    if (marked == Marked::before && joined == 0) return;
  }
}

void RecorderRing::group_opened() noexcept {
  depth_.fetch_add(1, std::memory_order_relaxed);
  group_flag_.store(kInGroup << kFlagsShift, std::memory_order_relaxed);
}

void RecorderRing::group_closed(bool completes, std::uint64_t sequence) noexcept {
  if (depth_.load(std::memory_order_relaxed) == 0) return;
  if (depth_.fetch_sub(1, std::memory_order_relaxed) > 1) return;
  group_flag_.store(0, std::memory_order_relaxed);
  if (completes) group_done(sequence);
}

void RecorderRing::group_done(std::uint64_t sequence) noexcept {
  const std::uint64_t last = oldest(sequence);
  for (std::uint64_t s = sequence - 1; s >= last; --s) {
    const Slot& slot = slot_of(s);
    if (slot.stamp.load(std::memory_order_acquire) != s * 2 + 2) continue;
    const RecordedWords words{.what = slot.what.load(std::memory_order_acquire)};
    if (operation_of(words) == Operation::group_end) continue;  // Of a group inside this one.
    if (!flag_of(words, kInGroup)) return;                      // Before, or its group_start.
    mark(s);
  }
}

void RecorderRing::joined(std::uint64_t sequence, std::uint64_t stream, bool is_given) noexcept {
  Slot& slot = slot_of(sequence);
  if (!is_given || slot.stamp.load(std::memory_order_acquire) != sequence * 2 + 2) return;
  slot.stream.store(stream, std::memory_order_release);
  const std::uint64_t flag = kStreamGiven << kFlagsShift;
  if ((slot.what.fetch_or(flag, std::memory_order_release) & flag) != 0) return;  // Joined before.
  joined_.fetch_add(1, std::memory_order_relaxed);
}

void RecorderRing::rebuilt(int rank, int world_size, std::uint64_t epoch) noexcept {
  {
    const std::lock_guard<std::mutex> lock(notes_->mutex);
    notes_->rank = rank;
    notes_->world_size = world_size;
    // Several threads may ask for one rebuild, and each is told that it succeeded.
    if (this->epoch() == epoch && !frozen_.load(std::memory_order_relaxed)) return;
    notes_->has_failed = false;
    notes_->message.clear();
    if (this->epoch() != epoch) place_.store(epoch << kNumberBits | 1, std::memory_order_relaxed);
  }
  depth_.store(0, std::memory_order_relaxed);
  joined_.store(0, std::memory_order_relaxed);
  group_flag_.store(0, std::memory_order_relaxed);
  set_frozen(false);
}

bool RecorderRing::read_slot(std::uint64_t sequence, RecordedEntry& entry) const noexcept {
  const Slot& slot = slot_of(sequence);
  const std::uint64_t stamp = sequence * 2 + 2;
  for (int tries = 0; tries < 100; ++tries) {
    const std::uint64_t before = slot.stamp.load(std::memory_order_acquire);
    if (before > stamp) return false;  // Overwritten since.
    if (before != stamp) continue;     // Being written, a matter of nanoseconds.
    entry.submitted = slot.submitted.load(std::memory_order_acquire);
    const std::uint64_t outcome = slot.outcome.load(std::memory_order_acquire);
    entry.words.what = slot.what.load(std::memory_order_acquire);
    const std::uint64_t place = slot.place.load(std::memory_order_acquire);
    entry.words.count = slot.count.load(std::memory_order_acquire);
    entry.words.stream = slot.stream.load(std::memory_order_acquire);
    entry.words.extra = slot.extra.load(std::memory_order_acquire);
    if (slot.stamp.load(std::memory_order_relaxed) != stamp) continue;
    entry.sequence = sequence;
    entry.epoch = place >> kNumberBits;
    const bool is_numbered = flag_of(entry.words, kCollective);
    entry.collective = is_numbered ? place & kNumberMask : 0;
    entry.words.source = is_numbered ? 0 : place & kNumberMask;
    const bool is_own = outcome >> kLapShift == lap_of(sequence) >> kLapShift;
    entry.code = static_cast<StatusCode>(outcome >> kCodeShift & 0xf);
    entry.taken = outcome & kMostTaken;
    entry.state = !is_own || (outcome & kReturned) == 0 ? SubmissionState::started
                  : entry.code != StatusCode::ok        ? SubmissionState::failed
                  : (outcome & kComplete) != 0          ? SubmissionState::complete
                                                        : SubmissionState::returned;
    if (entry.state == SubmissionState::started) entry.code = StatusCode::ok;
    return true;
  }
  return false;
}

std::vector<RecordedEntry> RecorderRing::read() const {
  std::vector<RecordedEntry> entries;
  const std::uint64_t newest = submissions();
  entries.reserve(static_cast<std::size_t>(newest < capacity() ? newest : capacity()));
  RecordedEntry entry{};
  for (std::uint64_t s = oldest(newest); s <= newest && newest != 0; ++s)
    if (read_slot(s, entry)) entries.push_back(entry);
  return entries;
}

}  // namespace comm::detail
