// The smallest engine: one all-reduce over the backend that the build chose. Prints the backend and
// the result.

#include <cstdio>

#include "comm/comm.h"

namespace {

template <class Backend>
const char* name() {
  return __PRETTY_FUNCTION__;
}

}  // namespace

int main() {
  auto made = comm::DefaultCommunicator::create();
  if (!made.ok()) {
    std::fprintf(stderr, "%s\n", made.message());
    return 1;
  }
  float values[4] = {1, 2, 3, 4};
  if (comm::Status s = made->all_reduce(comm::DeviceSpan(values, 4)); !s.ok()) {
    std::fprintf(stderr, "%s\n", s.message());
    return 1;
  }
  std::printf("%s: rank %d of %d, sum %g\n", name<comm::DefaultBackend>(), made->rank(),
              made->world_size(), static_cast<double>(values[3]));
}
