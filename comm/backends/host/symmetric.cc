#include "comm/backends/host/symmetric.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace comm::detail::host {

namespace {

/// What a rank shows of how a step of its own went.
struct Outcome {
  std::uint64_t offset = 0;
  std::uint32_t code = 0;
  std::int32_t native_code = 0;
};

Outcome outcome_of(const Status& status, std::uint64_t offset = 0) {
  return {offset, static_cast<std::uint32_t>(status.code()), status.native_code()};
}

/// `ours`, or the failure of another rank.
Status first_failure(Call& call, Status ours, std::size_t bytes, const char* what) {
  if (!ours.ok()) return ours;
  for (int r = 0; r < call.size(); ++r) {
    Outcome theirs;
    std::memcpy(&theirs, call.payload(r), sizeof theirs);
    if (static_cast<StatusCode>(theirs.code) == StatusCode::ok) continue;
    return make_error(static_cast<StatusCode>(theirs.code), theirs.native_code,
                      "symmetric_alloc on %s: %s could not %s for %zu bytes on every "
                      "rank: %s",
                      call.team().where().text, call.team().name(r).text, what, bytes,
                      std::strerror(theirs.native_code));
  }
  return {};
}

}  // namespace

Result<void*> SymmetricMemory::allocate(Team& team, std::size_t bytes, std::int64_t timeout_ns) {
  Call call(team, {Operation::symmetric_alloc}, bytes, timeout_ns);
  Status met = call.meet();
  if (!met.ok()) return met;

  // Blocks as large as huge pages start at one.
  constexpr std::size_t kHuge = 2 * 1024 * 1024;
  const auto n = static_cast<std::size_t>(team.size());
  const std::size_t stride =
      round_up(std::max<std::size_t>(bytes, 1), bytes >= kHuge ? kHuge : kPage);
  std::size_t total = 0;
  const bool overflows = stride < bytes || __builtin_mul_overflow(stride, n, &total) ||
                         __builtin_add_overflow(total, kPage, &total);
  const std::vector<Piece> pieces = pieces_of(stride, team.world().nodes_of(team.members()));
  Result<std::uint64_t> reserved = std::uint64_t{0};
  if (overflows)
    reserved = make_error(StatusCode::invalid_argument, EFBIG,
                          "symmetric_alloc on %s: %zu bytes on every rank overflow",
                          team.where().text, bytes);
  else if (team.rank() == 0)
    reserved = team.world().file.reserve(total, "symmetric_alloc", pieces);
  const Outcome first = outcome_of(reserved.status(), reserved.ok() ? *reserved : 0);
  met = call.meet(&first, sizeof first);
  if (!met.ok()) return met;
  Status failed = first_failure(call, std::move(reserved).status(), bytes, "reserve memory");
  if (!failed.ok()) return failed;
  Outcome leader;
  std::memcpy(&leader, call.payload(0), sizeof leader);

  // The blocks first and the head behind them: blocks then start at a huge page.
  Result<Mapping> mapping =
      team.world().file.map(leader.offset, total, pieces.empty() || stride >= kHuge);
  const Outcome second = outcome_of(mapping.status());
  met = call.meet(&second, sizeof second);
  if (!met.ok()) return met;
  failed = first_failure(call, std::move(mapping).status(), bytes, "map memory");
  if (!failed.ok()) {
    if (team.rank() == 0) team.world().file.discard(leader.offset, total);
    return failed;
  }
  Area area;
  area.offset = leader.offset;
  area.stride = stride;
  area.mapping = std::move(*mapping);
  area.own = area.mapping.base() + static_cast<std::size_t>(team.rank()) * stride;
  areas_.push_back(std::move(area));
  was_used_ = true;
  return static_cast<void*>(areas_.back().own);
}

Status SymmetricMemory::release(Team& team, void* buffer) {
  const auto area =
      std::find_if(areas_.begin(), areas_.end(), [&](const Area& a) { return a.own == buffer; });
  if (buffer == nullptr || area == areas_.end())
    return make_error(StatusCode::invalid_argument, 0,
                      "symmetric_free on %s: %p did not come from symmetric_alloc of "
                      "this communicator, or was freed before",
                      team.where().text, buffer);
  if (!area->is_retired) {
    const std::size_t total = area->mapping.bytes();
    auto* head = reinterpret_cast<SymmetricHead*>(area->mapping.base() + total - kPage);
    if (head->freed.fetch_add(1) + 1 == static_cast<std::uint32_t>(team.size()))
      team.world().file.discard(area->offset, total);
  }
  areas_.erase(area);
  return {};
}

std::uint64_t SymmetricMemory::locate(const void* p, std::size_t bytes) const {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  for (const Area& area : areas_) {
    const auto own = reinterpret_cast<std::uintptr_t>(area.own);
    if (!area.is_retired && address >= own && address - own <= area.stride &&
        bytes <= area.stride - (address - own))
      return area.offset + (address - reinterpret_cast<std::uintptr_t>(area.mapping.base())) + 1;
  }
  return 0;
}

std::byte* SymmetricMemory::at(std::uint64_t place) const {
  for (const Area& area : areas_) {
    const std::uint64_t into = place - 1 - area.offset;
    if (!area.is_retired && place > area.offset && into < area.mapping.bytes())
      return area.mapping.base() + into;
  }
  return nullptr;
}

Status SymmetricMemory::retire(Team& team) {
  for (Area& area : areas_) {
    if (area.is_retired) continue;
    void* copy =
        mmap(nullptr, area.stride, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
      return make_error(StatusCode::internal, errno,
                        "attempt_reconnect on rank %d of %d: no memory to keep a symmetric buffer "
                        "of %zu bytes: %s",
                        team.rank(), team.size(), area.stride, std::strerror(errno));
    std::memcpy(copy, area.own, area.stride);
    const std::size_t total = area.mapping.bytes();
    auto* head = reinterpret_cast<SymmetricHead*>(area.mapping.base() + total - kPage);
    head->freed.fetch_add(1);
    if (mremap(copy, area.stride, area.stride, MREMAP_MAYMOVE | MREMAP_FIXED, area.own) ==
        MAP_FAILED) {
      const int error = errno;
      munmap(copy, area.stride);
      return make_error(StatusCode::internal, error,
                        "attempt_reconnect on rank %d of %d: cannot keep a symmetric buffer: %s",
                        team.rank(), team.size(), std::strerror(error));
    }
    std::byte* base = area.mapping.release();
    std::byte* end = area.own + area.stride;
    if (area.own != base) munmap(base, static_cast<std::size_t>(area.own - base));
    munmap(end, static_cast<std::size_t>(base + total - end));
    area.mapping = Mapping(area.own, area.stride);
    area.is_retired = true;
  }
  return {};
}

}  // namespace comm::detail::host
