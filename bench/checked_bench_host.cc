// What Checked adds to a call over Host; see checked_bench.h.
//
//     bazel run -c opt //bench:checked_bench_host

#include "bench/checked_bench.h"
#include "comm/backends/host.h"
#include "comm/decorators/checked.h"

namespace {

using comm::Checked, comm::Communicator, comm::Host;

Host::Config config_of(int, comm::LaunchConfig launch) {
  Host::Config config;
  config.launch = std::move(launch);
  config.log = [](std::string_view) {};
  return config;
}

template <class B>
double time_of_all_reduce(int ranks) {
  return comm::bench::time_of<B>(
      ranks, config_of,
      [](Communicator<B>& c) {
        float x[2] = {1, 1};
        return c.all_reduce(comm::DeviceSpan<float>(x, 2));
      },
      [](Communicator<B>&) {});
}

}  // namespace

int main() {
  comm::bench::print_heading();
  for (const int ranks : {2, 4, 8})
    comm::bench::print_row("Host", "`all_reduce`, 8 B", ranks, time_of_all_reduce<Host>(ranks),
                           time_of_all_reduce<Checked<Host>>(ranks));
}
