#include "comm/backends/host/places.h"

namespace comm::detail::host {

bool Places::take(const Call& call, int r, std::size_t offset, void* to, std::size_t bytes) const {
  const std::byte* from = send[r] + offset;
  if (are_readable) return call.team().read_peer(r, to, from, bytes) == 0;
  if (bytes != 0) std::memcpy(to, from, bytes);
  return true;
}

Status exchange_places(Call& call, const SymmetricMemory& memory, const void* send,
                       std::size_t send_bytes, const void* recv, std::size_t recv_bytes,
                       Places& places, std::size_t read) {
  const bool may_read = call.team().reads_peers() && read >= kReadFrom;
  if ((!memory.was_used() && !may_read) || call.size() == 1) return {};
  const std::uint64_t own[3] = {memory.locate(send, send_bytes), memory.locate(recv, recv_bytes),
                                reinterpret_cast<std::uintptr_t>(send)};
  Status met = call.meet(own, sizeof own);
  if (!met.ok()) return met;
  std::uint64_t theirs[3];
  bool are_mapped = true;
  for (int r = 0; r < call.size(); ++r) {
    std::memcpy(theirs, call.payload(r), sizeof theirs);
    are_mapped = are_mapped && theirs[0] != 0 && theirs[1] != 0;
    places.send[r] = reinterpret_cast<std::byte*>(theirs[2]);
  }
  places.are_readable = may_read && !are_mapped;
  for (int r = 0; are_mapped && r < call.size(); ++r) {
    std::memcpy(theirs, call.payload(r), sizeof theirs);
    places.send[r] = memory.at(theirs[0]);
    places.recv[r] = memory.at(theirs[1]);
    // An area that this rank has freed already: the ranks disagree on what is allocated.
    if (places.send[r] == nullptr || places.recv[r] == nullptr)
      return call.fail(make_error(StatusCode::mismatch, 0,
                                  "%s uses symmetric memory that %s has freed",
                                  call.team().name(r).text, call.team().name(call.rank()).text));
  }
  places.are_mapped = are_mapped;
  return {};
}

}  // namespace comm::detail::host
