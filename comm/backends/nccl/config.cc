#include "comm/backends/nccl/config.h"

namespace comm {

Status NcclConfig::validate() const {
  const auto refuse = [](const char* what) {
    return make_error(StatusCode::invalid_argument, 0, "create: NcclConfig: %s", what);
  };
  using std::chrono::milliseconds;
  if (collective_timeout <= milliseconds(0) || reconnect_timeout <= milliseconds(0) ||
      close_timeout <= milliseconds(0) || abort_timeout <= milliseconds(0))
    return refuse("a timeout is not positive");
  if (waiting.spin.count() < 0 || waiting.yield < waiting.spin ||
      waiting.longest_sleep.count() <= 0)
    return refuse("waiting: spinning comes first, then yielding, then sleeps of some length");
  if (device < -1) return refuse("device is negative; -1 means that of the local rank");
  if (one_shot_max_ranks < 0) return refuse("one_shot_max_ranks is negative");
  if (receive_buffer_bytes > (std::size_t{1} << 40) || one_shot_bytes > (std::size_t{1} << 30))
    return refuse("receive_buffer_bytes is over 1 TiB, or one_shot_bytes over 1 GiB");
  if (min_ctas < 0 || max_ctas < 0 || (min_ctas > 0) != (max_ctas > 0) || min_ctas > max_ctas)
    return refuse("min_ctas and max_ctas: set both, the smaller first, or neither");
  return launch.has_value() ? launch->validate() : Status();
}

}  // namespace comm
