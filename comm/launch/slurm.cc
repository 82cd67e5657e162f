#include <cctype>
#include <cstdint>

#include "comm/launch/environment.h"
#include "comm/launch/launchers.h"

namespace comm::detail {

std::string first_slurm_host(const std::string& list) {
  // "prefix[03-08,12]suffix,other": the first number of the first bracket, as it is written.
  std::string host;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] == ',') break;
    if (list[i] != '[') {
      host += list[i];
      continue;
    }
    const std::size_t close = list.find(']', i);
    if (close == std::string::npos) return "";
    const std::size_t end = list.find_first_of(",-]", i);
    if (end == i + 1) return "";
    host += list.substr(i + 1, end - i - 1);
    i = close;
  }
  for (const char c : host) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (!plain && c != '-' && c != '.' && c != '_') return "";
  }
  return host;
}

int slurm_tasks_on_node(const std::string& list, int node) {
  std::size_t at = 0;
  while (at < list.size()) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    const std::string item = list.substr(at, comma - at);
    const std::size_t open = item.find("(x");
    const std::optional<std::int64_t> tasks = parse_number(item.substr(0, open));
    std::optional<std::int64_t> times = 1;
    if (open != std::string::npos) {
      if (item.back() != ')') return -1;
      times = parse_number(item.substr(open + 2, item.size() - open - 3));
    }
    if (!tasks || !times || *tasks > 1'000'000) return -1;
    if (node < *times) return static_cast<int>(*tasks);
    node -= static_cast<int>(*times);
    at = comma + 1;
  }
  return -1;
}

Result<std::optional<HostPort>> slurm_root() {
  HostPort out;
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    const std::optional<std::string> list = variable(name);
    if (!list) continue;
    out.host = first_slurm_host(*list);
    if (out.host.empty()) return bad_variable(name, *list, "expected a list of hosts");
    break;
  }
  const std::optional<std::string> job = variable("SLURM_JOB_ID");
  if (out.host.empty() || !job) return std::optional<HostPort>();

  if (const std::optional<std::string> ports = variable("SLURM_STEP_RESV_PORTS")) {
    // "12000-12003": srun --resv-ports keeps these for the step.
    const std::optional<std::int64_t> first =
        parse_number(ports->substr(0, ports->find_first_of("-,")));
    if (!first || *first < 1 || *first > 65535) {
      return bad_variable("SLURM_STEP_RESV_PORTS", *ports, "expected a range of ports");
    }
    out.port = static_cast<std::uint16_t>(*first);
    return std::optional(out);
  }
  // Below the ports that Linux gives out by itself (32768 and up). Two steps that meet on one are
  // told apart by the job id in the hello.
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : *job + "." + variable("SLURM_STEP_ID").value_or("0")) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  }
  out.port = static_cast<std::uint16_t>(20000 + hash % 10000);
  return std::optional(out);
}

}  // namespace comm::detail
