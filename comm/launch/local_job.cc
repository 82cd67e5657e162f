#include "comm/launch/local_job.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "comm/rendezvous/address.h"
#include "comm/rendezvous/sockets.h"

namespace comm::detail {
namespace {

// Set for each rank, or of no meaning to a job of its own.
constexpr const char* kOwnVariables[] = {"RANK",
                                         "WORLD_SIZE",
                                         "LOCAL_RANK",
                                         "LOCAL_WORLD_SIZE",
                                         "MASTER_ADDR",
                                         "MASTER_PORT",
                                         "COMM_RANK",
                                         "COMM_WORLD_SIZE",
                                         "COMM_LOCAL_RANK",
                                         "COMM_LOCAL_WORLD_SIZE",
                                         "COMM_ROOT_ADDR",
                                         "COMM_ROOT_PORT",
                                         "COMM_BIND",
                                         "COMM_RENDEZVOUS_FILE",
                                         "COMM_JOB_ID",
                                         "COMM_SECRET",
                                         "COMM_SECRET_FILE",
                                         "COMM_EPOCH",
                                         "COMM_LISTEN_FD",
                                         "TORCHELASTIC_USE_AGENT_STORE",
                                         "TORCHELASTIC_RUN_ID",
                                         "TORCHELASTIC_RESTART_COUNT"};

Result<std::string> random_hex(std::size_t bytes) {
  std::string raw(bytes, '\0');
  if (::getrandom(raw.data(), raw.size(), 0) != static_cast<ssize_t>(raw.size())) {
    return make_error(StatusCode::internal, errno, "no random bytes: %s",
                      error_text(errno).c_str());
  }
  std::string out;
  for (const char c : raw) {
    constexpr char kDigits[] = "0123456789abcdef";
    const auto u = static_cast<unsigned char>(c);
    out += kDigits[u >> 4];
    out += kDigits[u & 15];
  }
  return out;
}

}  // namespace

Result<LocalJob> LocalJob::make(int ranks, std::string_view name) {
  LocalJob job;
  job.ranks_ = ranks;
  SocketAddress loopback;
  parse_numeric("127.0.0.1", 0, loopback);
  Result<UniqueFd> listener = listen_on(loopback, 4096);
  if (!listener.ok()) return std::move(listener).status();
  // Out of the way of the descriptors that a child rearranges.
  job.listener_.reset(::fcntl(listener->get(), F_DUPFD_CLOEXEC, 10));
  job.port_ = std::to_string(local_address(job.listener_.get()).port());
  for (std::string* text : {&job.id_, &job.secret_}) {
    Result<std::string> drawn = random_hex(16);
    if (!drawn.ok()) return std::move(drawn).status();
    *text = std::move(*drawn);
  }
  job.id_.insert(0, std::string(name) + "-");
  return job;
}

std::vector<std::string> LocalJob::environment(int rank) const {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    const bool own = std::any_of(std::begin(kOwnVariables), std::end(kOwnVariables),
                                 [&](const char* variable) { return name == variable; });
    if (!own) out.emplace_back(text);
  }
  const std::string self = std::to_string(rank), size = std::to_string(ranks_);
  out.push_back("RANK=" + self);
  out.push_back("WORLD_SIZE=" + size);
  out.push_back("LOCAL_RANK=" + self);
  out.push_back("LOCAL_WORLD_SIZE=" + size);
  out.push_back("MASTER_ADDR=127.0.0.1");
  out.push_back("MASTER_PORT=" + port_);
  out.push_back("COMM_JOB_ID=" + id_);
  out.push_back("COMM_SECRET=" + secret_);
  if (rank == 0) out.push_back("COMM_LISTEN_FD=" + std::to_string(listener_.get()));
  return out;
}

std::vector<char*> c_strings(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& s : strings) out.push_back(s.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace comm::detail
