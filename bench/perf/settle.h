#pragma once

/// `settle`: ranks of one machine that were just started may share a core for a while. It calls them
/// together until the kernel has had the time to spread them, so that the first size is measured as the
/// others are.

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "comm/result.h"

namespace comm::perf {

template <class Memory, class Comm>
Status settle(Comm& communicator) {
  constexpr auto kSettling = std::chrono::milliseconds(200);
  if (communicator.world_size() == 1) return {};
  std::vector<std::int32_t> goes_on(1, 1);
  auto buffer = Memory::template make<std::int32_t>(communicator, 1, false);
  if (!buffer.ok()) return std::move(buffer).status();
  const auto begin = std::chrono::steady_clock::now();
  while (goes_on[0] != 0) {
    goes_on[0] = std::chrono::steady_clock::now() - begin < kSettling ? 1 : 0;
    if (Status s = Memory::upload(goes_on, buffer->span()); !s.ok()) return s;
    if (Status s = communicator.broadcast(buffer->span(), 0); !s.ok()) return s;
    if (Status s = Memory::download(buffer->span(), goes_on); !s.ok()) return s;
  }
  return {};
}

}  // namespace comm::perf
