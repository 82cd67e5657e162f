// An outcome cannot be dropped unseen, and what owns something cannot be copied.

#include "comm/backends/single_gpu.h"
#include "comm/communicator.h"

using comm::DeviceSpan;

int main() {
  comm::Communicator<comm::SingleGpu> c{comm::SingleGpu()};
  float numbers[4] = {};
  DeviceSpan span(numbers, 4);

  comm::Status status = c.barrier();
  comm::Status moved = std::move(status);
  moved.ignore();

#ifdef FAIL_a_status_is_dropped
  c.all_reduce(span);  // WARN: nodiscard
#endif

#ifdef FAIL_a_result_is_dropped
  c.all_gather(span, span);  // WARN: nodiscard
#endif

#ifdef FAIL_a_group_guard_is_dropped
  c.group();  // WARN: nodiscard
#endif

#ifdef FAIL_a_status_is_copied
  comm::Status copy = moved;  // EXPECT: deleted
#endif

#ifdef FAIL_a_status_is_taken_for_a_bool
  if (c.barrier()) return 1;  // EXPECT: bool
#endif

#ifdef FAIL_a_group_is_copied
  auto group = c.group();
  auto copy = group;  // EXPECT: deleted
#endif

#ifdef FAIL_a_communicator_is_copied
  auto copy = c;  // EXPECT: deleted
#endif
}
