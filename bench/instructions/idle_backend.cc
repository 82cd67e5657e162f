#include "bench/instructions/idle_backend.h"

#include <cstddef>
#include <cstring>

namespace comm::bench {

Status Idle::all_reduce(const ops::AllReduce&) {
  return {};
}

Status Idle::exchange(const Exchange& exchange) {
  auto* all = static_cast<std::byte*>(exchange.all);
  std::memcpy(all, exchange.mine, exchange.bytes);
  std::memcpy(all + exchange.bytes, exchange.mine, exchange.bytes);
  return {};
}

}  // namespace comm::bench
