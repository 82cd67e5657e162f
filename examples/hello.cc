// The smallest program: every rank contributes a number, and every rank gets the sum.
//
//   ./bazelw run //examples:hello                                  one rank, nothing communicates
//   ./bazelw build --config=host //comm:commrun //examples:hello
//   bazel-bin/comm/launch/commrun/commrun -n 3 bazel-bin/examples/hello     three ranks

#include <cstdio>

#include "comm/comm.h"
#include "examples/buffer.h"

namespace {

int fail(const comm::Status& status) {
  std::fprintf(stderr, "hello: %s\n", status.message());
  return 1;
}

}  // namespace

int main() {
  comm::Result<comm::DefaultCommunicator> made = comm::DefaultCommunicator::create();
  if (!made.ok()) return fail(made.status());
  comm::DefaultCommunicator& communicator = *made;

  example::Buffer<int> number(1);
  number[0] = communicator.rank() + 1;
  if (comm::Status s = communicator.all_reduce(number.span()); !s.ok()) return fail(s);
  if (comm::Status s = communicator.synchronize(); !s.ok()) return fail(s);

  std::printf("rank %d of %d: the sum is %d\n", communicator.rank(), communicator.world_size(),
              number[0]);
  return 0;
}
