// Any trivially copyable type is moved; only types of DataType are reduced; what is received into is
// not const.

#include <string>

#include "comm/backends/single_gpu.h"
#include "comm/communicator.h"

using comm::DeviceSpan;
using comm::ReduceOp;

struct Pair {
  int a, b;
};

int main() {
  comm::Communicator<comm::SingleGpu> c{comm::SingleGpu()};
  float numbers[4] = {};
  const float constants[4] = {};
  Pair pairs[4] = {};
  std::string strings[4];
  char letters[4] = {};
  double doubles[4] = {};

  c.all_reduce(DeviceSpan(numbers, 4)).ignore();
  c.broadcast(DeviceSpan(pairs, 4), 0).ignore();
  c.broadcast(DeviceSpan(letters, 4), 0).ignore();
  c.all_gather(DeviceSpan(constants, 4), DeviceSpan(numbers, 4)).ignore();
  static_cast<void>(strings);
  static_cast<void>(doubles);

#ifdef FAIL_a_struct_is_reduced
  c.all_reduce(DeviceSpan(pairs, 4)).ignore();  // EXPECT: Reducible
#endif

#ifdef FAIL_char_is_reduced
  c.all_reduce(DeviceSpan(letters, 4)).ignore();  // EXPECT: Reducible
#endif

#ifdef FAIL_a_string_is_moved
  c.broadcast(DeviceSpan(strings, 4), 0).ignore();  // EXPECT: Transportable
#endif

#ifdef FAIL_a_constant_is_reduced_in_place
  c.all_reduce(DeviceSpan(constants, 4)).ignore();  // EXPECT: Writable
#endif

#ifdef FAIL_a_constant_is_received_into
  c.all_gather(DeviceSpan(numbers, 4), DeviceSpan(constants, 4)).ignore();  // EXPECT: SendOf
#endif

#ifdef FAIL_types_differ
  c.all_gather(DeviceSpan(numbers, 4), DeviceSpan(doubles, 4)).ignore();  // EXPECT: SendOf
#endif

#ifdef FAIL_a_command_is_not_u32
  c.recv_command_u32(DeviceSpan(numbers, 1), 0).ignore();  // EXPECT: DeviceSpan<float>
#endif

#ifdef FAIL_a_stream_is_zero
  c.all_reduce(DeviceSpan(numbers, 4), ReduceOp::sum, 0).ignore();  // EXPECT: deleted
#endif

#ifdef FAIL_a_stream_is_nullptr
  c.barrier(nullptr).ignore();  // EXPECT: deleted
#endif
}
