#include "comm/decorators/recorded_state.h"

namespace comm::detail {
namespace {

std::string epoch_part(std::uint64_t place) {
  const std::uint64_t epoch = place >> RecorderRing::kNumberBits;
  return epoch == 0 ? std::string() : "epoch" + std::to_string(epoch) + ".";
}

}  // namespace

RecorderOptions RecorderState::options_for(const std::string& name) const {
  RecorderOptions options;
  if (ring_ != nullptr) options = ring_->options();
  options.name += name;
  return options;
}

void record_failure(RecorderRing* ring, Operation operation, std::uint64_t sequence,
                    const Status& status, bool is_healthy) noexcept {
  if (sequence == 0) return;
  // A group ends on its failure, too.
  if (operation == Operation::group_end) ring->group_closed(false, sequence);
  ring->failed(sequence, status, is_healthy);
}

std::string name_of_part(const ops::Split& op, const RecorderRing& ring, std::uint64_t sequence) {
  const std::uint64_t place = ring.place_of(sequence);
  return "/" + epoch_part(place) + "split" + std::to_string(place & RecorderRing::kNumberMask) +
         "c" + std::to_string(op.color);
}

std::string name_of_part(const ops::Shrink& op, const RecorderRing& ring, std::uint64_t sequence) {
  const std::uint64_t place = ring.place_of(sequence);
  constexpr std::size_t kNamed = 8;
  std::string name = "/" + epoch_part(place) + "shrink";
  for (std::size_t i = 0; i < op.excluded_count && i < kNamed; ++i)
    name += "-" + std::to_string(op.excluded[i]);
  if (op.excluded_count > kNamed) name += "-and" + std::to_string(op.excluded_count - kNamed);
  return name;
}

}  // namespace comm::detail
