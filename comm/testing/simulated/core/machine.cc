#include "comm/testing/simulated/core/machine.h"

#include "comm/testing/simulated/core/stream.h"
#include "comm/testing/simulated/settings.h"

namespace comm::simulated {

void set_seed(std::uint64_t seed) {
  Settings next = settings();
  next.seed = seed;
  set_settings(next);
  detail::Lock lock(detail::machine().mutex);
  detail::place_again(lock);
}

namespace detail {

Machine& machine() {
  static Machine& machine = *new Machine;
  return machine;
}

}  // namespace detail
}  // namespace comm::simulated
