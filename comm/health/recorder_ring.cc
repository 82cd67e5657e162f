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
      place_(epoch << kNumberBits | 1),
      notes_(std::move(notes)) {}

RecorderRing::~RecorderRing() = default;

const RecorderOptions& RecorderRing::options() const noexcept {
  return notes_->options;
}

void RecorderRing::failed(const Token& token, const Status& status, bool is_healthy) noexcept {
  slot_of(token.sequence)
      .outcome.store(lap_of(token.sequence) | kReturned |
                         static_cast<std::uint64_t>(status.code()) << kCodeShift | taken(token),
                     std::memory_order_release);
  if (status.code() == StatusCode::invalid_argument || status.code() == StatusCode::unsupported)
    return;
  if (!is_healthy) frozen_.store(true, std::memory_order_relaxed);
  {
    const std::lock_guard<std::mutex> lock(notes_->mutex);
    if (notes_->has_failed) return;
    notes_->has_failed = true;
    notes_->failed_sequence = token.sequence;
    notes_->code = status.code();
    notes_->native_code = status.native_code();
    notes_->message = status.message();
  }
  dump_after_failure(*this);
}

bool RecorderRing::mark(std::uint64_t sequence) noexcept {
  Slot& slot = slot_of(sequence);
  const std::uint64_t outcome = slot.outcome.load(std::memory_order_acquire);
  if (outcome >> kLapShift != lap_of(sequence) >> kLapShift) return false;
  if ((outcome & kComplete) != 0) return false;
  const bool has_failed = (outcome >> kCodeShift & 0xf) != 0;
  if ((outcome & kReturned) != 0 && !has_failed) {
    const Token token{sequence, slot.submitted.load(std::memory_order_relaxed), 0};
    slot.outcome.store(lap_of(sequence) | kReturned | kComplete | taken(token),
                       std::memory_order_release);
  }
  return true;
}

void RecorderRing::stream_done(const Token& token, std::uint64_t stream, bool is_given) noexcept {
  const std::uint64_t last = oldest(token.sequence);
  for (std::uint64_t s = token.sequence - 1; s >= last; --s) {
    const Slot& slot = slot_of(s);
    if (slot.stamp.load(std::memory_order_acquire) != s * 2 + 2) continue;
    const RecordedWords words{.what = slot.what.load(std::memory_order_acquire)};
    if (!is_on_stream(operation_of(words)) || flag_of(words, kStreamGiven) != is_given) continue;
    if (is_given && slot.stream.load(std::memory_order_acquire) != stream) continue;
    // A stream's work ends in order, so what comes before one that is complete was marked with it.
    if (!mark(s)) return;
  }
}

void RecorderRing::group_closed() noexcept {
  if (in_group()) depth_.fetch_sub(1, std::memory_order_relaxed);
}

void RecorderRing::group_done(const Token& token) noexcept {
  const std::uint64_t last = oldest(token.sequence);
  for (std::uint64_t s = token.sequence - 1; s >= last; --s) {
    const Slot& slot = slot_of(s);
    if (slot.stamp.load(std::memory_order_acquire) != s * 2 + 2) continue;
    const RecordedWords words{.what = slot.what.load(std::memory_order_acquire)};
    if (operation_of(words) == Operation::group_end) continue;  // Of a group inside this one.
    if (!flag_of(words, kInGroup)) return;                      // Before, or its group_start.
    mark(s);
  }
}

void RecorderRing::joined(const Token& token, std::uint64_t stream, bool is_given) noexcept {
  Slot& slot = slot_of(token.sequence);
  if (!is_given || slot.stamp.load(std::memory_order_acquire) != token.sequence * 2 + 2) return;
  slot.stream.store(stream, std::memory_order_release);
  slot.what.fetch_or(kStreamGiven << kFlagsShift, std::memory_order_release);
}

void RecorderRing::rebuilt(int rank, int world_size, std::uint64_t epoch) noexcept {
  {
    const std::lock_guard<std::mutex> lock(notes_->mutex);
    notes_->rank = rank;
    notes_->world_size = world_size;
    // Several threads may ask for one rebuild, and each is told that it succeeded.
    if (this->epoch() == epoch && !is_frozen()) return;
    notes_->has_failed = false;
    notes_->message.clear();
    if (this->epoch() != epoch) place_.store(epoch << kNumberBits | 1, std::memory_order_relaxed);
  }
  depth_.store(0, std::memory_order_relaxed);
  frozen_.store(false, std::memory_order_relaxed);
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
