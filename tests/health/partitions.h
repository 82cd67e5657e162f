#pragma once

/// `Partitions` cuts ranks of a soak off from one another at random: one rank, rank 0 among them, or
/// some of the ranks from the others; for less than COMM_PEER_TIMEOUT or until all have been told.
/// Whoever was in good order when the cable went has to be told in time, on both sides.
/// One at a time; other harm may be done meanwhile.

#include <algorithm>
#include <random>

#include "tests/health/network.h"
#include "tests/health/soak_rank.h"

namespace comm::test {

class Partitions {
 public:
  /// `network` is null where the machine has none: nothing is done then.
  Partitions(const Network* network, Board& board, int ranks)
      : network_(network), board_(board), ranks_(ranks) {}

  /// Looks after the one under way, or sometimes begins one.
  void step(std::mt19937_64& random) {
    if (network_ == nullptr) return;
    if (is_on_)
      watch();
    else if (random() % 3 == 0)
      begin(random);
  }

  /// Others are to leave the ranks alone, so that silence is all there is to find.
  bool wants_calm() const { return is_on_ && is_calm_; }

  void mend() {
    if (!is_on_) return;
    bool survived = true;
    for (int r = 0; r < ranks_; ++r) {
      survived = survived && still_runs(r);
      if (((side_ >> r) & 1U) != 0) network_->mend(r);
    }
    for (int r = 0; r < ranks_; ++r) mark(r, false);
    is_on_ = false;
    survived_ += survived ? 1 : 0;
  }

  int count() const { return count_; }
  int survived() const { return survived_; }
  /// The longest that a rank in good order took to be told.
  std::int64_t slowest_ms() const { return slowest_ms_; }

 private:
  void begin(std::mt19937_64& random) {
    const auto draw = [&](unsigned below) { return static_cast<unsigned>(random() % below); };
    // The side of the fewest; with rank 0 on it only if that is alone.
    side_ = 1U << draw(static_cast<unsigned>(ranks_));
    if (side_ != 1 && draw(3) == 0)
      for (int r = 1; r < ranks_; ++r) side_ |= draw(2) << r;
    const bool is_short = count_++ % 2 == 0;
    lasts_ms_ = is_short ? 50 + draw(2500) : 0;
    lingers_ms_ = draw(2000);
    is_calm_ = draw(4) != 0;
    began_ = now_ms();
    for (int r = 0; r < ranks_; ++r) {
      const Board::Rank& rank = board_.ranks[r];
      epochs_[r] = rank.runs.load() ? rank.epoch.load() : kNone;
      mark(r, true);
    }
    const unsigned how = draw(3);
    for (int r = 0; r < ranks_; ++r) {
      if (((side_ >> r) & 1U) == 0) continue;
      if (how == 0)
        network_->cut(r, Network::Cut::dark);
      else
        network_->cut(r, how == 1 ? Network::Cut::unplugged : Network::Cut::other_side);
    }
    is_on_ = true;
    told_ = -1;
  }

  void watch() {
    began_ = std::max(began_, board_.stood_still.load());
    const std::int64_t lasted = now_ms() - began_;
    if (lasts_ms_ != 0) {
      if (lasted >= lasts_ms_) mend();
      return;
    }
    bool all_told = true;
    for (int r = 0; r < ranks_; ++r) all_told = all_told && !still_runs(r);
    if (all_told && told_ < 0) {
      told_ = lasted;
      if (is_calm_) slowest_ms_ = std::max(slowest_ms_, told_);
    }
    if (all_told && lasted >= told_ + lingers_ms_) return mend();
    if (all_told || lasted < kBoundMs + kSlackMs) return;
    for (int r = 0; r < ranks_; ++r)
      if (still_runs(r))
        board_.complain("rank %d was not told in %lld ms that the network is cut (side %#x)", r,
                        static_cast<long long>(lasted), side_);
  }

  bool still_runs(int rank) const {
    const Board::Rank& state = board_.ranks[rank];
    return state.runs.load() && state.epoch.load() == epochs_[rank];
  }

  void mark(int rank, bool is_cut) {
    if (((side_ >> rank) & 1U) == 0) return;
    Board::Rank& state = board_.ranks[rank];
    state.cut.store(now_ms());
    state.harmed.store(now_ms());
    state.is_cut.store(is_cut);
  }

  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  /// A probe of the kernel's may just have been answered.
  static constexpr std::int64_t kBoundMs = kPeerTimeout.count() * 4 / 3;

  const Network* network_;
  Board& board_;
  int ranks_;
  bool is_on_ = false;
  bool is_calm_ = false;
  unsigned side_ = 0;
  std::int64_t began_ = 0;
  std::int64_t lasts_ms_ = 0;  ///< 0: until all have been told.
  std::int64_t lingers_ms_ = 0;
  std::int64_t told_ = -1;
  std::uint64_t epochs_[kMostRanks] = {};
  int count_ = 0;
  int survived_ = 0;
  std::int64_t slowest_ms_ = 0;
};

}  // namespace comm::test
