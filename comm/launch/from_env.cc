#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "comm/launch/environment.h"
#include "comm/launch/launch_config.h"
#include "comm/launch/launchers.h"

namespace comm {
namespace {

using detail::Launcher;
using detail::Place;

// A host name, an address with or without a scope, or unix:NAME.
Result<std::optional<std::string>> address_variable(const char* name) {
  Result<std::optional<std::string>> address = detail::word_variable(name, 253);
  if (!address.ok() || !*address) return address;
  const std::string& text = **address;
  const auto colons = std::count(text.begin(), text.end(), ':');
  const bool unix_name = text.starts_with("unix:") && text.size() > 5 && text.size() <= 5 + 107;
  if (text == "None" || text == "null" || text.find('/') != std::string::npos ||
      (colons == 1 && !unix_name)) {
    return detail::bad_variable(name, text, "expected a host name or an address, without a port");
  }
  return address;
}

Status read_secret(LaunchConfig& config) {
  const std::optional<std::string> direct = detail::variable("COMM_SECRET");
  const std::optional<std::string> path = detail::variable("COMM_SECRET_FILE");
  if (direct && path) {
    return make_error(StatusCode::invalid_argument, 0,
                      "launch: COMM_SECRET and COMM_SECRET_FILE are both set; unset one");
  }
  if (!direct && !path) return {};
  std::string secret = direct.value_or("");
  if (path) {
    std::ifstream file(*path, std::ios::binary);
    secret.assign(std::istreambuf_iterator<char>(file), {});
    if (!file) return detail::bad_variable("COMM_SECRET_FILE", *path, "cannot be read");
    while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  }
  if (secret.empty() || secret.size() > 4096) {
    return make_error(StatusCode::invalid_argument, 0,
                      "launch: the secret in %s has %zu characters; expected 1 to 4096",
                      direct ? "COMM_SECRET" : "COMM_SECRET_FILE", secret.size());
  }
  config.secret = std::move(secret);
  return {};
}

Status read_options(LaunchConfig& config) {
  const auto text = [](const char* name, std::size_t longest, std::string& out) -> Status {
    Result<std::optional<std::string>> value = detail::word_variable(name, longest);
    if (!value.ok()) return std::move(value).status();
    if (*value) out = std::move(**value);
    return {};
  };
  const auto time = [](const char* name, std::chrono::milliseconds& out) -> Status {
    Result<std::optional<std::chrono::milliseconds>> value = detail::duration_variable(name);
    if (!value.ok()) return std::move(value).status();
    out = value->value_or(out);
    return {};
  };
  if (Status s = text("COMM_JOB_ID", 255, config.job_id); !s.ok()) return s;
  if (Status s = text("COMM_BIND", 253, config.bind_address); !s.ok()) return s;
  if (Status s = text("COMM_RENDEZVOUS_FILE", 4000, config.rendezvous_file); !s.ok()) return s;
  if (Status s = time("COMM_INIT_TIMEOUT", config.init_timeout); !s.ok()) return s;
  if (Status s = time("COMM_HANDSHAKE_TIMEOUT", config.handshake_timeout); !s.ok()) return s;
  if (Status s = time("COMM_PEER_TIMEOUT", config.peer_timeout); !s.ok()) return s;

  auto epoch = detail::number_variable("COMM_EPOCH", 0, INT64_MAX);
  if (!epoch.ok()) return std::move(epoch).status();
  if (*epoch) config.epoch = static_cast<std::uint64_t>(**epoch);
  auto fd = detail::number_variable("COMM_LISTEN_FD", 0, 1 << 20);
  if (!fd.ok()) return std::move(fd).status();
  config.listen_fd = static_cast<int>(fd->value_or(-1));
  return read_secret(config);
}

// An abstract socket's name that is this user's and this job's alone; no more than 107 characters.
std::string unix_name(const std::string& key) {
  std::string name = "unix:comm-" + std::to_string(::geteuid()) + "-" + key;
  if (name.size() <= 5 + 107) return name;
  return name.substr(0, 90) + "-" + std::to_string(std::hash<std::string>()(name));
}

struct Given {
  const char* address_name = "MASTER_ADDR";
  const char* port_name = "MASTER_PORT";
  std::optional<std::string> address;
  std::optional<std::int64_t> port;
};

Result<Given> read_given() {
  Given given;
  for (const bool own : {false, true}) {
    const char* const address_name = own ? "COMM_ROOT_ADDR" : "MASTER_ADDR";
    const char* const port_name = own ? "COMM_ROOT_PORT" : "MASTER_PORT";
    auto address = address_variable(address_name);
    if (!address.ok()) return std::move(address).status();
    if (*address) {
      given.address = std::move(*address);
      given.address_name = address_name;
    }
    auto port = detail::number_variable(port_name, 1, 65535);
    if (!port.ok()) return std::move(port).status();
    if (*port) {
      given.port = *port;
      given.port_name = port_name;
    }
  }
  return given;
}

Status choose_root(const Place& place, bool single_host, LaunchConfig& config) {
  Result<Given> read = read_given();
  if (!read.ok()) return std::move(read).status();
  Given& given = *read;
  if (config.world_size == 1 || !config.rendezvous_file.empty()) return {};

  const std::string key = detail::local_job_key(place);
  // torchrun's agent holds MASTER_PORT for its own store, so rank 0 cannot have it.
  const bool taken = place.launcher == Launcher::torch && given.port_name[0] == 'M' &&
                     detail::variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if ((taken || (!given.address && !given.port)) && single_host && !key.empty()) {
    config.root_address = unix_name(key);
    return {};
  }
  if (taken && given.port) given.port = *given.port == 65535 ? 65534 : *given.port + 1;

  if (!given.address && !given.port && place.launcher == Launcher::slurm) {
    Result<std::optional<detail::HostPort>> root = detail::slurm_root();
    if (!root.ok()) return std::move(root).status();
    if (*root) {
      config.root_address = (*root)->host;
      config.root_port = (*root)->port;
      return {};
    }
  }
  const bool unix_root = given.address && given.address->starts_with("unix:");
  if (!given.address || (!given.port && !unix_root)) {
    return make_error(
        StatusCode::invalid_argument, 0,
        "launch: rank %d of %d (%s) does not know where rank 0 is: %s is not set; set "
        "MASTER_ADDR and MASTER_PORT, or COMM_RENDEZVOUS_FILE to a path that all "
        "hosts share",
        config.rank, config.world_size, config.source.c_str(),
        given.address ? given.port_name : given.address_name);
  }
  config.root_address = *given.address;
  config.root_port = static_cast<std::uint16_t>(given.port.value_or(0));
  return {};
}

bool is_loopback_name(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.") ||
         address.starts_with("unix:");
}

}  // namespace

Result<LaunchConfig> LaunchConfig::from_env() {
  Result<Place> place = detail::find_place();
  if (!place.ok()) return std::move(place).status();

  LaunchConfig config;
  config.source = place->name;
  config.rank = place->rank;
  config.world_size = place->world_size;
  config.job_id = detail::launcher_job_id(*place);
  if (Status s = read_options(config); !s.ok()) return s;

  const bool all_here = place->local_world_size == place->world_size;
  if (Status s = choose_root(*place, all_here, config); !s.ok()) return s;

  // What the launcher does not say: a job that meets on loopback is all on this host; otherwise one
  // process a host is what Kubernetes starts.
  const bool local =
      all_here || (place->local_world_size < 0 && is_loopback_name(config.root_address));
  if (place->local_world_size > 1 && place->local_rank < 0 && !all_here) {
    return make_error(StatusCode::invalid_argument, 0,
                      "launch: %s says that this host runs %d ranks, but not which of them this is",
                      place->name, place->local_world_size);
  }
  config.local_world_size = local ? config.world_size : std::max(place->local_world_size, 1);
  config.local_rank = local ? config.rank : 0;
  if (place->local_rank >= 0) {
    config.local_rank = place->local_rank;
    config.local_world_size = std::max(config.local_world_size, config.local_rank + 1);
  }
  if (Status s = config.validate(); !s.ok()) return s;
  return config;
}

}  // namespace comm
