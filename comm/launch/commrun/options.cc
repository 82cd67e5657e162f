#include "comm/launch/commrun/options.h"

#include <string_view>

#include "comm/launch/environment.h"

namespace comm::commrun {

const char* const kHelp =
    R"(usage: commrun -n RANKS [options] [--] program [arguments]

Starts RANKS processes of the program on this host, as the ranks of one job: each with RANK,
WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and a fresh COMM_JOB_ID and
COMM_SECRET. Lines that a rank prints come out behind "[rank] ". Rank 0 reads commrun's standard
input unless that is a terminal.

When a rank fails the others are ended, and commrun exits as that rank did: with its status, or with
128 and the number of the signal that killed it. SIGINT, SIGTERM, SIGHUP and SIGQUIT are handed on;
the second one kills. No process of the job outlives commrun.

  -n, -np RANKS    how many ranks (1 to 4096)
  --timeout TIME   end the job after this long, with status 124: 90, 90s, 1500ms, 10m or 2h
  --grace TIME     how long ranks have between SIGTERM and SIGKILL (5s)
  --help           this text
)";

Result<Options> Options::parse(int argc, char** argv) {
  const auto wrong = [](const char* format, const std::string& what) {
    return make_error(StatusCode::invalid_argument, 0, format, what.c_str());
  };
  Options options;
  int i = 1;
  for (; i < argc; ++i) {
    std::string name = argv[i];
    if (name == "--") {
      ++i;
      break;
    }
    if (name.empty() || name[0] != '-') break;
    if (name == "--help" || name == "-h") {
      options.help = true;
      return options;
    }
    // "--timeout=3s" and "-n4" as well as the two words.
    std::optional<std::string> value;
    const std::size_t equals = name.find('=');
    if (name.starts_with("--") && equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    } else if (name.size() > 2 && name.starts_with("-n") && name[2] >= '0' && name[2] <= '9') {
      value = name.substr(2);
      name = "-n";
    }
    if (name != "-n" && name != "-np" && name != "--timeout" && name != "--grace") {
      return wrong("unknown option '%s'; see commrun --help", name);
    }
    if (!value) {
      if (i + 1 == argc) return wrong("option '%s' needs a value", name);
      value = argv[++i];
    }
    if (name == "-n" || name == "-np") {
      const std::optional<std::int64_t> ranks = detail::parse_number(*value);
      if (!ranks || *ranks < 1 || *ranks > 4096) {
        return wrong("'%s' is no number of ranks from 1 to 4096", *value);
      }
      options.ranks = static_cast<int>(*ranks);
      continue;
    }
    const std::optional<std::chrono::milliseconds> time = detail::parse_duration(*value);
    if (!time) return wrong("'%s' is no time; expected 90, 90s, 1500ms, 10m or 2h", *value);
    if (name == "--timeout") options.timeout = *time;
    if (name == "--grace") options.grace = *time;
  }
  options.command.assign(argv + i, argv + argc);
  if (options.ranks == 0) return wrong("%s is missing; see commrun --help", "-n RANKS");
  if (options.command.empty()) return wrong("%s is missing; see commrun --help", "the program");
  return options;
}

}  // namespace comm::commrun
