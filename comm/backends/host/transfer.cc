#include "comm/backends/host/transfer.h"

#include <algorithm>
#include <cstring>

#include "comm/backends/host/places.h"

namespace comm::detail::host {

namespace {

constexpr std::size_t kUnit = 16;  // Messages start at a multiple of it.

// Published in pieces, so that the receiver copies one while the sender copies the next.
constexpr std::size_t kPiece = 16 * 1024;

struct MessageHeader {
  std::uint64_t count;
  std::uint32_t type;
  std::uint32_t is_offer;
};
static_assert(sizeof(MessageHeader) == kUnit);

/// Follows the header of an offer.
struct Offer {
  std::uint64_t address;
  std::uint64_t reserved;
};
static_assert(sizeof(Offer) == kUnit);

/// The bytes of a message are followed by what is missing to a whole unit.
std::size_t padding(std::size_t bytes) {
  return round_up(bytes, kUnit) - bytes;
}

void put(std::byte* data, std::size_t capacity, std::uint64_t at, const void* from,
         std::size_t bytes) {
  const std::size_t begin = static_cast<std::size_t>(at) & (capacity - 1);
  const std::size_t first = std::min(bytes, capacity - begin);
  std::memcpy(data + begin, from, first);
  if (bytes != first) std::memcpy(data, static_cast<const std::byte*>(from) + first, bytes - first);
}

void take(const std::byte* data, std::size_t capacity, std::uint64_t at, void* to,
          std::size_t bytes) {
  const std::size_t begin = static_cast<std::size_t>(at) & (capacity - 1);
  const std::size_t first = std::min(bytes, capacity - begin);
  std::memcpy(to, data + begin, first);
  if (bytes != first) std::memcpy(static_cast<std::byte*>(to) + first, data, bytes - first);
}

}  // namespace

Transfer Transfer::sending(const void* buffer, std::size_t count, DataType type, int peer) {
  Transfer t;
  t.from_ = static_cast<const std::byte*>(buffer);
  t.bytes_ = count * size_of(type);
  t.count_ = count;
  t.type_ = type;
  t.peer_ = peer;
  t.is_sending_ = true;
  return t;
}

Transfer Transfer::receiving(void* buffer, std::size_t count, DataType type, int peer) {
  Transfer t;
  t.to_ = static_cast<std::byte*>(buffer);
  t.bytes_ = count * size_of(type);
  t.count_ = count;
  t.type_ = type;
  t.peer_ = peer;
  return t;
}

std::size_t Transfer::footprint() const {
  return kUnit + bytes_ + padding(bytes_);
}

bool Transfer::progress(Team& team, Status& problem) {
  return is_sending_ ? send_some(team) : receive_some(team, problem);
}

bool Transfer::is_fetched(const Team& team) const {
  return bytes_ >= kReadFrom && peer_ != team.rank() && team.reads_peers();
}

/// Says where the message is, or looks whether it was fetched.
bool Transfer::offer(Team& team) {
  Ring& ring = team.ring(team.rank(), peer_);
  std::byte* data = team.ring_data(team.rank(), peer_);
  const std::size_t capacity = team.layout().ring_bytes;
  const std::uint64_t written = ring.written.load(std::memory_order_relaxed);
  const std::uint64_t read = ring.read.load(std::memory_order_acquire);
  if (offered_at_ != 0) {
    if (read < offered_at_) return false;
    // The bytes follow through the ring, if the receiver could not have them.
    if (ring.unfetched.load(std::memory_order_relaxed) != offered_at_) done_ = bytes_;
    offered_at_ = 0;
    return true;
  }
  if (capacity - (written - read) < 2 * kUnit) return false;
  const MessageHeader header{count_, static_cast<std::uint32_t>(type_), 1};
  const Offer where{reinterpret_cast<std::uintptr_t>(from_), 0};
  put(data, capacity, written, &header, sizeof header);
  put(data, capacity, written + kUnit, &where, sizeof where);
  has_header_ = true;
  offered_at_ = written + 2 * kUnit;
  ring.written.store(offered_at_, std::memory_order_release);
  team.announce();
  return true;
}

bool Transfer::send_some(Team& team) {
  if (offered_at_ != 0 || (!has_header_ && is_fetched(team))) return offer(team);
  Ring& ring = team.ring(team.rank(), peer_);
  std::byte* data = team.ring_data(team.rank(), peer_);
  const std::size_t capacity = team.layout().ring_bytes;
  std::uint64_t written = ring.written.load(std::memory_order_relaxed);
  const std::uint64_t start = written;
  for (;;) {
    // The receiver's line is looked at only where what was seen of it does not do.
    if (capacity - (written - ring.read_seen) < std::min(capacity, footprint()))
      ring.read_seen = ring.read.load(std::memory_order_acquire);
    const std::uint64_t space = capacity - (written - ring.read_seen);
    if (!has_header_) {
      if (space < kUnit) break;
      const MessageHeader header{count_, static_cast<std::uint32_t>(type_), 0};
      put(data, capacity, written, &header, sizeof header);
      written += kUnit;
      has_header_ = true;
      // A small message and its header are published together.
      if (space - kUnit < bytes_ + padding(bytes_))
        ring.written.store(written, std::memory_order_release);
      if (bytes_ == 0) break;
      continue;
    }
    const std::size_t n = std::min({static_cast<std::size_t>(space), bytes_ - done_, kPiece});
    const bool is_last = n == bytes_ - done_;
    if (n == 0 || (is_last && space < n + padding(bytes_))) break;
    put(data, capacity, written, from_ + done_, n);
    done_ += n;
    written += n + (is_last ? padding(bytes_) : 0);
    ring.written.store(written, std::memory_order_release);
    if (is_last) break;
  }
  if (written == start) return false;
  ring.written.store(written, std::memory_order_release);
  team.announce();
  return true;
}

bool Transfer::receive_some(Team& team, Status& problem) {
  Ring& ring = team.ring(peer_, team.rank());
  const std::byte* data = team.ring_data(peer_, team.rank());
  const std::size_t capacity = team.layout().ring_bytes;
  std::uint64_t read = ring.read.load(std::memory_order_relaxed);
  const std::uint64_t start = read;
  for (;;) {
    const std::uint64_t there = ring.written.load(std::memory_order_acquire) - read;
    if (!has_header_) {
      if (there < kUnit) break;
      MessageHeader header;
      take(data, capacity, read, &header, sizeof header);
      if (header.count != count_ || header.type != static_cast<std::uint32_t>(type_)) {
        problem = make_error(StatusCode::mismatch, 0,
                             "%s sends %llu elements of %s where %s receives %zu of %s",
                             team.name(peer_).text, static_cast<unsigned long long>(header.count),
                             to_string(static_cast<DataType>(header.type)),
                             team.name(team.rank()).text, count_, to_string(type_));
        return false;
      }
      if (header.is_offer != 0) {
        // Header and place were published together.
        Offer where;
        take(data, capacity, read + kUnit, &where, sizeof where);
        read += 2 * kUnit;
        has_header_ = true;
        const auto* there = reinterpret_cast<const void*>(where.address);
        if (team.read_peer(peer_, to_, there, bytes_) == 0)
          done_ = bytes_;
        else
          ring.unfetched.store(read, std::memory_order_relaxed);
        break;
      }
      read += kUnit;
      has_header_ = true;
      if (bytes_ == 0) break;
      continue;
    }
    const std::size_t n = std::min({static_cast<std::size_t>(there), bytes_ - done_, kPiece});
    const bool is_last = n == bytes_ - done_;
    if (n == 0 || (is_last && there < n + padding(bytes_))) break;
    take(data, capacity, read, to_ + done_, n);
    done_ += n;
    read += n + (is_last ? padding(bytes_) : 0);
    ring.read.store(read, std::memory_order_release);
    if (is_last) break;
  }
  if (read == start) return false;
  ring.read.store(read, std::memory_order_release);
  team.announce();
  return true;
}

Status run(Team& team, Transfer* transfers, std::size_t n, std::int64_t timeout_ns,
           Operation operation) {
  Status problem;
  // One look at all: of each pair and direction, only the first message that is not done may move.
  auto blocked = [&]() -> std::uint64_t {
    std::uint64_t sending = 0;
    std::uint64_t receiving = 0;
    bool moved = false;
    for (std::size_t i = 0; i < n && problem.ok(); ++i) {
      Transfer& t = transfers[i];
      std::uint64_t& taken = t.is_sending() ? sending : receiving;
      if (t.is_done() || (taken & bit(t.peer())) != 0) continue;
      moved = t.progress(team, problem) || moved;
      if (!t.is_done()) taken |= bit(t.peer());
    }
    return moved || !problem.ok() ? 0 : sending | receiving;
  };
  const auto all_done = [&] {
    return std::all_of(transfers, transfers + n, [](const Transfer& t) { return t.is_done(); });
  };
  while (!all_done()) {
    std::uint64_t on = blocked();
    for (int i = team.quick_looks(); on != 0 && i > 0; --i) on = blocked();
    Status waited = on == 0 ? Status() : team.wait(Missing(blocked), timeout_ns, operation);
    if (!waited.ok()) return waited;
    if (!problem.ok()) return team.fail(operation, problem);
  }
  return {};
}

}  // namespace comm::detail::host
