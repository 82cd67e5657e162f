/// Exchanges of a few bytes over the channel of the rendezvous, and where lines go.

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>

#include "comm/backends/nccl/state.h"

namespace comm::detail::nccl {

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15 + b;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

void Agreement::begin_epoch(std::uint64_t now) {
  if (epoch == now) return;
  epoch = now;
  exchanges = 0;
  divisions.clear();
}

std::uint64_t Agreement::id_of_part(std::uint64_t division, std::uint64_t part) {
  return mix(mix(id, division + (std::uint64_t{++divisions[division]} << 32)), part);
}

void State::open_log() {
  log = std::make_unique<Logger>(config.log, config.log_levels.value_or(LogLevels()), LogPart::nccl,
                                 rank, world_size);
}

Status State::exchange(const Exchange& exchange) {
  if (!is_open()) return refuse(exchange.operation);
  agreement.begin_epoch(epoch.load());
  const OutOfBand::Among among{agreement.id, agreement.exchanges++, rank,
                               world_size,   ignores_channel,       exchange.sums_last};
  // What has no deadline has one after all: how long a channel can count, some weeks.
  constexpr std::int64_t kWeeks = std::int64_t{UINT32_MAX} * 1'000'000;
  const auto own = std::chrono::nanoseconds(config.collective_timeout).count();
  const std::int64_t timeout = std::min(exchange.timeout.nanoseconds_or(own), kWeeks);
  Result<Bytes> all = channel->gather_among(
      among, {static_cast<const std::byte*>(exchange.mine), exchange.bytes},
      std::chrono::ceil<std::chrono::milliseconds>(std::chrono::nanoseconds(timeout)));
  if (!all.ok()) return std::move(all).status();
  std::memcpy(exchange.all, all->data(), all->size());
  return {};
}

}  // namespace comm::detail::nccl
