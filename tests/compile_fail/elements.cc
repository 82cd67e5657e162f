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
  short shorts[4] = {};
  comm::Stream stream;

  c.all_reduce(DeviceSpan(numbers, 4)).ignore();
  c.broadcast(DeviceSpan(pairs, 4), 0).ignore();
  c.broadcast(DeviceSpan(letters, 4), 0).ignore();
  c.all_gather(DeviceSpan(constants, 4), DeviceSpan(numbers, 4)).ignore();
  static_cast<void>(strings);
  static_cast<void>(doubles);
  static_cast<void>(shorts);
  static_cast<void>(stream);

#ifdef FAIL_a_struct_is_reduced
  c.all_reduce(DeviceSpan(pairs, 4)).ignore();  // EXPECT: Reducible
#endif

#ifdef FAIL_char_is_reduced
  c.all_reduce(DeviceSpan(letters, 4)).ignore();  // EXPECT: Reducible
#endif

#ifdef FAIL_16_bit_integers_are_reduced
  c.all_reduce(DeviceSpan(shorts, 4)).ignore();  // EXPECT: Reducible
#endif

#ifdef FAIL_a_struct_is_reduced_asynchronously
  c.all_reduce_async(DeviceSpan(pairs, 4)).ignore();  // EXPECT: Reducible
#endif

#ifdef FAIL_a_struct_is_reduced_and_scattered
  // EXPECT: Reducible
  c.reduce_scatter(DeviceSpan(pairs, 4), DeviceSpan(pairs, 4)).ignore();
#endif

#ifdef FAIL_blocks_of_a_struct_are_counted
  const std::size_t counts[] = {4};
  // EXPECT: Countable
  c.all_to_all_v(DeviceSpan(pairs, 4), counts, DeviceSpan(pairs, 4), counts).ignore();
#endif

#ifdef FAIL_a_string_is_moved
  c.broadcast(DeviceSpan(strings, 4), 0).ignore();  // EXPECT: Transportable
#endif

#ifdef FAIL_a_constant_is_reduced_in_place
  c.all_reduce(DeviceSpan(constants, 4)).ignore();  // EXPECT: Writable
#endif

#ifdef FAIL_a_constant_is_reduced_in_place_later
  c.all_reduce_deferred(DeviceSpan(constants, 4)).ignore();  // EXPECT: Writable
#endif

#ifdef FAIL_a_constant_is_broadcast_into
  c.broadcast(DeviceSpan(constants, 4), 0).ignore();  // EXPECT: Writable
#endif

#ifdef FAIL_a_constant_is_received_from_a_peer
  c.recv_from(DeviceSpan(constants, 4), 0).ignore();  // EXPECT: Writable
#endif

#ifdef FAIL_a_constant_is_registered
  c.register_buffer(DeviceSpan(constants, 4)).ignore();  // EXPECT: Writable
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

#ifdef FAIL_a_stream_is_made_of_zero
  stream = comm::Stream(0);  // EXPECT: deleted
#endif

#ifdef FAIL_a_span_loses_its_const
  DeviceSpan<float> writable = DeviceSpan(constants, 4);  // EXPECT: conversion
#endif

#ifdef FAIL_a_span_is_read_by_the_host
  // EXPECT(g++): operator[]
  // EXPECT(clang++): subscript operator
  return static_cast<int>(DeviceSpan(numbers, 4)[0]);
#endif
}
