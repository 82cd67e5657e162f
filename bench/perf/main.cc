// comm_perf: how fast a collective of a backend is. See options.cc for the command line.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "bench/perf/backends.h"
#include "bench/perf/options.h"
#include "bench/perf/report.h"
#include "comm/launch/self_launch.h"

namespace {

using comm::perf::BackendEntry;
using comm::perf::Options;
using comm::perf::Run;

int fail(const char* message) {
  std::fprintf(stderr, "%s\n", message);
  return 2;
}

comm::Result<BackendEntry> find_backend(const std::string& name) {
  std::string names;
  for (const BackendEntry& entry : comm::perf::backends()) {
    if (name.empty() || entry.name == name) return entry;
    names += " " + std::string(entry.name);
  }
  return comm::make_error(comm::StatusCode::invalid_argument, 0,
                          "comm_perf: --backend '%s': this program was built with%s (nccl needs "
                          "--config=nccl)",
                          name.c_str(), names.c_str());
}

comm::Status write_reports(const Run& run) {
  if (!run.options.json_path.empty()) {
    if (comm::Status s = comm::perf::write_file(run.options.json_path, to_json(run)); !s.ok())
      return s;
  }
  if (!run.options.plot_path.empty())
    return comm::perf::write_file(run.options.plot_path, to_svg(run));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  comm::Result<Options> options = comm::perf::parse_options(argc, argv);
  if (!options.ok()) return fail(options.message());
  if (options->help) {
    std::fputs(comm::perf::usage().data(), stdout);
    return 0;
  }
  comm::Result<BackendEntry> backend = find_backend(options->backend);
  if (!backend.ok()) return fail(backend.message());
  if (options->ranks > 0 && !comm::was_self_launched()) {
    comm::Result<int> status = comm::launch_self(options->ranks, argv);
    return status.ok() ? *status : fail(status.message());
  }
  Run run;
  run.backend = backend->name;
  run.options = std::move(*options);
  if (comm::Status s = backend->run(run); !s.ok()) return fail(s.message());
  if (run.rank != 0) return 0;
  if (comm::Status s = write_reports(run); !s.ok()) return fail(s.message());
  return comm::perf::wrong_elements(run) == 0 ? 0 : 1;
}
