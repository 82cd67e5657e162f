#include "comm/rendezvous/out_of_band.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "comm/rendezvous/member.h"

namespace comm {

using detail::ExchangeKind;

class OutOfBand::Impl {
 public:
  explicit Impl(std::unique_ptr<detail::Member> member)
      : owner_(::getpid()), member_(std::move(member)) {}

  bool forked() const { return ::getpid() != owner_; }
  Status forked_error() const {
    return make_error(StatusCode::unsupported, 0,
                      "this process was forked from rank %d and is no rank itself; a child makes a "
                      "communicator of its own",
                      member_->rank());
  }

  const pid_t owner_;
  const std::unique_ptr<detail::Member> member_;
};

OutOfBand::OutOfBand(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}

Result<std::unique_ptr<OutOfBand>> OutOfBand::join(RendezvousConfig config) {
  Result<std::unique_ptr<detail::Member>> member = detail::Member::join(std::move(config));
  if (!member.ok()) return std::move(member).status();
  return std::unique_ptr<OutOfBand>(new OutOfBand(std::make_unique<Impl>(std::move(*member))));
}

OutOfBand::~OutOfBand() {
  if (impl_->forked()) {
    // The parent's service thread does not exist here, and what it was doing at the fork is half
    // done in this copy; there is nothing to take apart safely.
    static_cast<void>(impl_.release());
    return;
  }
  impl_->member_->leave();
}

int OutOfBand::rank() const noexcept {
  return impl_->member_->rank();
}
int OutOfBand::world_size() const noexcept {
  return impl_->member_->world_size();
}
std::uint64_t OutOfBand::epoch() const noexcept {
  return impl_->member_->epoch();
}
std::string OutOfBand::session() const {
  return impl_->member_->session();
}

std::size_t OutOfBand::max_payload() const noexcept {
  return detail::max_contribution(static_cast<std::uint32_t>(world_size()));
}

Result<Bytes> OutOfBand::broadcast(std::span<const std::byte> payload, int root,
                                   std::chrono::milliseconds timeout) {
  if (impl_->forked()) return impl_->forked_error();
  if (rank() != root) payload = {};
  return impl_->member_->exchange(ExchangeKind::broadcast, root, payload, timeout);
}

Result<std::vector<Bytes>> OutOfBand::all_gather(std::span<const std::byte> payload,
                                                 std::chrono::milliseconds timeout) {
  if (impl_->forked()) return impl_->forked_error();
  Result<Bytes> all = impl_->member_->exchange(ExchangeKind::all_gather, 0, payload, timeout);
  if (!all.ok()) return std::move(all).status();
  std::vector<Bytes> out(static_cast<std::size_t>(world_size()));
  detail::ByteReader reader(*all);
  for (Bytes& each : out) {
    std::uint32_t length = 0;
    detail::ByteSpan bytes;
    if (!reader.number(length) || !reader.take(length, bytes)) {
      return make_error(StatusCode::internal, 0, "all_gather on rank %d of %d: malformed outcome",
                        rank(), world_size());
    }
    each.assign(bytes.begin(), bytes.end());
  }
  return out;
}

Result<Bytes> OutOfBand::gather_among(const Among& ranks, std::span<const std::byte> payload,
                                      std::chrono::milliseconds timeout) {
  if (impl_->forked()) return impl_->forked_error();
  Result<Bytes> all = impl_->member_->gather_among(ranks, payload, timeout);
  if (!all.ok() || ranks.size == 1) return all;
  const std::size_t bytes = payload.size();
  detail::ByteReader reader(*all);
  std::uint32_t given = 0;
  const auto size = static_cast<std::size_t>(ranks.size);
  if (!reader.number(given) || (given != 1 && given != size) ||
      all->size() != sizeof given + given * bytes) {
    return make_error(StatusCode::internal, 0, "exchange on rank %d of %d: malformed outcome",
                      ranks.rank, ranks.size);
  }
  const detail::ByteSpan given_bytes = reader.rest();
  Bytes out;
  out.reserve(size * bytes);
  for (std::size_t r = 0; r < (given == 1 ? size : 1); ++r) {
    out.insert(out.end(), given_bytes.begin(), given_bytes.end());
    if (given == 1 && ranks.sums_last && r > 0)
      std::fill(out.end() - sizeof(std::uint64_t), out.end(), std::byte{0});
  }
  return out;
}

Status OutOfBand::barrier(std::chrono::milliseconds timeout) {
  if (impl_->forked()) return impl_->forked_error();
  return impl_->member_->exchange(ExchangeKind::barrier, 0, {}, timeout).status().copy();
}

Status OutOfBand::check() noexcept {
  if (impl_->forked()) return impl_->forked_error();
  return impl_->member_->check();
}

int OutOfBand::lost_rank() const noexcept {
  return impl_->member_->lost_rank();
}
int OutOfBand::departed_rank() const noexcept {
  return impl_->member_->departed_rank();
}

void OutOfBand::conclude(std::uint64_t done) noexcept {
  impl_->member_->conclude(done);
}
OutOfBand::Departure OutOfBand::departure() const noexcept {
  if (departed_rank() < 0) return {};
  const detail::Departed departed = impl_->member_->departure();
  return {static_cast<int>(departed.rank), departed.done};
}

void OutOfBand::call(std::uint64_t number) noexcept {
  if (!impl_->forked()) impl_->member_->call(number);
}
std::uint64_t OutOfBand::called() const noexcept {
  return impl_->member_->called();
}

void OutOfBand::notify(std::string_view failure) noexcept {
  if (!impl_->forked()) impl_->member_->notify(failure);
}

Status OutOfBand::rejoin(std::chrono::milliseconds timeout) {
  if (impl_->forked()) return impl_->forked_error();
  return impl_->member_->rejoin(timeout);
}

void OutOfBand::leave() noexcept {
  if (!impl_->forked()) impl_->member_->leave();
}

}  // namespace comm
