#pragma once

/// What ranks of one communicator say to one another: for each operation a description, and the
/// bytes that the receiver needs.

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/testing/simulated/nccl/numbers.h"

namespace comm::simulated::detail {

enum class CallKind : std::int32_t {
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  gather,
  scatter,
  send,
  recv,
  control,  // init, split, shrink, window registration: what they exchange on the host
};

/// One rank's call, as far as the ranks must agree on it. Plain, since it is sent as it is.
struct Call {
  CallKind kind = CallKind::control;
  std::int32_t type = 0;       // ncclDataType_t
  std::int32_t reduction = 0;  // Reduction; 0 for calls without
  std::int32_t root = 0;       // or the peer; 0 for calls without
  std::uint64_t count = 0;

  bool operator==(const Call&) const = default;
};

const char* name_of(CallKind kind);
std::string describe(const Call& call);

enum class Channel : std::uint32_t { collective, data, ready, control, connect, goodbye };

using Bytes = std::vector<char>;

struct Message {
  std::int32_t from = 0;
  Channel channel = Channel::collective;
  std::uint64_t sequence = 0;
  Call call;
  std::shared_ptr<const Bytes> data;  // Null where there is none.
};

}  // namespace comm::simulated::detail
