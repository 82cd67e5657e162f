// What is not a backend is refused in one line that names the operation it misses.

#include "comm/backend_defaults.h"
#include "comm/backends/single_gpu.h"
#include "comm/communicator.h"

namespace {

using comm::SingleGpu;
using comm::Status;

struct Plain {};

struct NoBroadcast : SingleGpu {
  Status broadcast(const comm::ops::Broadcast&) = delete;
};

struct VoidAllReduce : SingleGpu {
  void all_reduce(const comm::ops::AllReduce&) {}
};

struct SplitsIntoAnother : SingleGpu {
  comm::Result<SingleGpu> split(const comm::ops::Split&) { return SingleGpu(); }
};

}  // namespace

int main() {
  [[maybe_unused]] comm::Communicator<SingleGpu> right{SingleGpu()};

#ifdef FAIL_not_a_backend
  comm::Communicator<Plain> c{Plain()};  // EXPECT: HasIdentity
#endif

#ifdef FAIL_an_operation_is_missing
  comm::Communicator<NoBroadcast> c{NoBroadcast()};  // EXPECT: HasBroadcast
#endif

#ifdef FAIL_an_operation_returns_nothing
  comm::Communicator<VoidAllReduce> c{VoidAllReduce()};  // EXPECT: HasAllReduce
#endif

#ifdef FAIL_a_derived_backend_splits_into_its_base
  comm::Communicator<SplitsIntoAnother> c{SplitsIntoAnother()};  // EXPECT: HasSplit
#endif
}
