#include "comm/launch/launch_config.h"

namespace comm {

LaunchConfig LaunchConfig::local(int rank, int world_size, std::uint16_t port) {
  LaunchConfig config;
  config.rank = config.local_rank = rank;
  config.world_size = config.local_world_size = world_size;
  config.root_address = "127.0.0.1";
  config.root_port = port;
  return config;
}

Status LaunchConfig::validate() const {
  constexpr int kMaxWorldSize = 65536;
  constexpr std::size_t kMaxText = 255;
  const auto refuse = [](const char* format, int a, int b) {
    return make_error(StatusCode::invalid_argument, 0, format, a, b);
  };
  if (world_size < 1 || world_size > kMaxWorldSize) {
    return refuse("launch: world size %d is not from 1 to %d", world_size, kMaxWorldSize);
  }
  if (rank < 0 || rank >= world_size) {
    return refuse("launch: rank %d is outside of a world of %d", rank, world_size);
  }
  if (local_world_size < 1 || local_world_size > world_size) {
    return refuse("launch: local world size %d is not from 1 to the world size, %d",
                  local_world_size, world_size);
  }
  if (local_rank < 0 || local_rank >= local_world_size) {
    return refuse("launch: local rank %d is outside of a local world of %d", local_rank,
                  local_world_size);
  }
  if (init_timeout.count() <= 0 || handshake_timeout.count() <= 0 || peer_timeout.count() <= 0) {
    return make_error(StatusCode::invalid_argument, 0, "launch: every timeout must be above zero");
  }
  if (job_id.size() > kMaxText) {
    return make_error(StatusCode::invalid_argument, 0,
                      "launch: the job id has %zu characters; %zu are the most", job_id.size(),
                      kMaxText);
  }
  if (world_size == 1) return {};
  const bool has_listener = rank == 0 && (listener != nullptr || listen_fd >= 0);
  if (!rendezvous_file.empty() || has_listener) return {};
  if (root_address.empty()) {
    return make_error(
        StatusCode::invalid_argument, 0,
        "launch: rank %d of %d has no address of rank 0 (root_address, or MASTER_ADDR "
        "and MASTER_PORT, or COMM_RENDEZVOUS_FILE)",
        rank, world_size);
  }
  if (root_port == 0 && !root_address.starts_with("unix:")) {
    return make_error(StatusCode::invalid_argument, 0,
                      "launch: rank %d of %d has the address '%s' of rank 0, but no port", rank,
                      world_size, root_address.c_str());
  }
  return {};
}

}  // namespace comm
