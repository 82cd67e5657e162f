// A decorator of one's own around whichever backend the build chose: what each operation cost.
//
//   ./bazelw run //examples:custom_decorator                       one rank: nothing, and so no time
//   ./bazelw build --config=host //comm:commrun //examples:custom_decorator
//   bazel-bin/comm/commrun -n 2 bazel-bin/examples/custom_decorator/custom_decorator

#include <cstdio>

#include "comm/comm.h"
#include "examples/buffer.h"
#include "examples/custom_decorator/timed.h"

namespace {

using Communicator = comm::Communicator<example::Timed<comm::DefaultBackend>>;

comm::Status work(Communicator& c) {
  example::Buffer<float> gradients(1000);
  for (int step = 0; step < 100; ++step) {
    if (comm::Status s = c.all_reduce(gradients.span(), comm::ReduceOp::avg); !s.ok()) return s;
    if (step % 10 != 0) continue;
    if (comm::Status s = c.barrier_wait(); !s.ok()) return s;
  }
  return c.synchronize();
}

}  // namespace

int main() {
  comm::Result<Communicator> made = Communicator::create();
  if (!made.ok()) {
    std::fprintf(stderr, "custom_decorator: %s\n", made.message());
    return 1;
  }
  if (comm::Status s = work(*made); !s.ok()) {
    std::fprintf(stderr, "custom_decorator: %s\n", s.message());
    return 1;
  }
  for (comm::Operation operation : {comm::Operation::all_reduce, comm::Operation::barrier_wait}) {
    const example::Time& time = made->backend().time(operation);
    const double each = time.calls == 0 ? 0
                                        : static_cast<double>(time.spent.count()) / 1e3 /
                                              static_cast<double>(time.calls);
    std::printf("rank %d: %-12s %4llu calls, %8.1f us each\n", made->rank(), to_string(operation),
                static_cast<unsigned long long>(time.calls), each);
  }
  return 0;
}
