#pragma once

/// `OutOfBand` is how ranks find one another, and the channel that stays up between them for the
/// life of a communicator: who died, and the few kilobytes that ranks exchange beside the data path
/// (NCCL's unique id, a shared-memory name, fingerprints). It is not a data path: everything passes
/// through rank 0. Rank 0 runs one service thread, asleep in the kernel when nothing happens, so
/// that a death is relayed even while rank 0 computes; the other ranks have no thread.
///
///     comm::RendezvousConfig config;
///     config.launch = launch;
///     config.backend = "host";
///     auto channel = comm::OutOfBand::join(std::move(config));
///     if (!channel.ok()) return std::move(channel).status();
///     comm::Result<comm::Bytes> id = (*channel)->broadcast(my_id, 0, std::chrono::seconds(10));
///
/// Every call is bounded by a deadline. Exchanges are collective: all ranks make the same ones in
/// the same order; where they differ, all get `mismatch`. An exchange that one rank did not reach in
/// time fails on all with the names of the missing, and the channel stays usable.
///
/// Thread safety: any member from any thread; exchanges of one channel run one at a time.
/// After `fork` the child's copy is dead: it answers errors, sends nothing, and its destructor
/// leaves the parent's connection alone.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/launch/launch_config.h"
#include "comm/log.h"
#include "comm/result.h"
#include "comm/status.h"

namespace comm {

using Bytes = std::vector<std::byte>;

struct RendezvousConfig {
  LaunchConfig launch;

  /// What all ranks must agree on before they start. Short strings: a name, a library version, and
  /// a digest or a line of settings ("chunk=65536 dtype=bf16") that is quoted where it differs.
  std::string backend;
  std::string backend_version;
  std::string fingerprint;

  /// Receives one line at a time, possibly from the service thread; stderr where empty.
  std::function<void(std::string_view)> log;
  std::optional<LogLevels> log_levels;  ///< None: as COMM_LOG says.
};

class OutOfBand {
 public:
  /// The most that one rank gives to one exchange; `max_payload()` also knows the world size.
  static constexpr std::size_t kMaxPayload = 64 * 1024;

  /// Returns when all ranks have joined, or the first reason why they cannot. Rank 0 listens; the
  /// others connect, again and again until `launch.init_timeout`, so any order of arrival is right.
  static Result<std::unique_ptr<OutOfBand>> join(RendezvousConfig config);

  OutOfBand(const OutOfBand&) = delete;
  OutOfBand& operator=(const OutOfBand&) = delete;
  ~OutOfBand();  ///< As `leave()`.

  int rank() const noexcept;
  int world_size() const noexcept;
  std::uint64_t epoch() const noexcept;

  /// 128 random bits as 32 hexadecimal digits: the same on all ranks, new with each epoch. Fit to
  /// name what must not be mistaken for another job's, such as a shared-memory segment.
  std::string session() const;

  std::size_t max_payload() const noexcept;

  /// Some of the ranks, for an exchange of their own: those of a communicator that was made from this
  /// one. They may be in it while other threads are in other exchanges.
  struct Among {
    std::uint64_t id = 0;      ///< The same on those that take part, and on no others.
    std::uint64_t number = 0;  ///< Of the exchange among them: each has its own.
    int rank = 0;              ///< This rank's place among them.
    int size = 0;
    bool despite_failures = false;  ///< For ranks that go on after others were lost.
    bool sums_last = false;         ///< Of the last 8 bytes, a number, only the sum is asked.
  };

  /// The payload, of the same size, of each that takes part, one behind the other. Where all are
  /// equal the costs grow with the ranks, otherwise with their square. With `sums_last` numbers at the
  /// ends may differ: where all else is equal the first has the sum of all (modulo 2^64), the others 0.
  Result<Bytes> gather_among(const Among& ranks, std::span<const std::byte> payload,
                             std::chrono::milliseconds timeout);

  /// `payload` counts on `root` only.
  Result<Bytes> broadcast(std::span<const std::byte> payload, int root,
                          std::chrono::milliseconds timeout);

  /// Everybody's payload, by rank; sizes may differ.
  Result<std::vector<Bytes>> all_gather(std::span<const std::byte> payload,
                                        std::chrono::milliseconds timeout);

  Status barrier(std::chrono::milliseconds timeout);

  /// Never blocks; one system call while all is well. Ok, or the first failure: `peer_lost` naming
  /// the rank and how it went, or what a rank said in `notify`. A rank that called `leave()` is not
  /// a failure, since what it did before may still be on its way here: see `departed_rank`.
  Status check() noexcept;

  int lost_rank() const noexcept;      ///< The first rank that was lost; -1: none.
  int departed_rank() const noexcept;  ///< The first rank that left in good order; -1: none.

  /// A count of what this rank has taken part in, told to the others when it leaves in good order: by
  /// it those that go on know what such a rank never came to.
  void conclude(std::uint64_t done) noexcept;

  struct Departure {
    int rank = -1;
    std::uint64_t done = ~std::uint64_t{0};  ///< As concluded; the greatest number: nothing was.
  };
  /// Of the ranks that left in good order one that had done the least; -1: none has left.
  Departure departure() const noexcept;

  /// Tells all ranks that this one has failed and why. The first cause wins everywhere.
  void notify(std::string_view failure) noexcept;

  /// Asks all ranks to look up, for whatever they have agreed that means: `called()` of each becomes
  /// `number` when it next looks (`check`). What is not more than it was called before calls nobody.
  void call(std::uint64_t number) noexcept;
  std::uint64_t called() const noexcept;  ///< In this epoch; 0: not yet.

  /// Gives up this epoch and joins the next one, at the same address. Every rank calls it; a
  /// process that was restarted calls `join` instead. If a rank is missing when the time is up,
  /// nobody starts and all say who was missing; `rejoin` may then be called again.
  Status rejoin(std::chrono::milliseconds timeout);

  /// Leaves in good order: the other ranks read it as a departure, not as a loss. Idempotent.
  void leave() noexcept;

 private:
  class Impl;
  explicit OutOfBand(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace comm
