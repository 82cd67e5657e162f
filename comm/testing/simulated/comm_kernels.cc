// comm's own kernels, run on the host by the code that nvcc compiles for the device, and with what
// they read and write, so that a buffer used without an event is found.

#include <cstddef>

#include "comm/kernels/sum_body.h"
#include "comm/testing/simulated/kernel.h"

namespace comm::simulated {
namespace {

template <class T>
void add_inplace(const Launch&, T* accumulator, const T* addend, std::size_t count) {
  kernels::add_inplace(accumulator, addend, count, 0, 1);
}

template <class T>
std::vector<Touched> touched_by_add(T* accumulator, const T* addend, std::size_t count) {
  return {{accumulator, count * sizeof(T), true}, {addend, count * sizeof(T), false}};
}

template <class T>
void add_rank_sum(const Launch&, T* out, kernels::Contributions<T> from, std::size_t count) {
  kernels::add_rank_sum(out, from, count, 0, 1);
}

template <class T>
std::vector<Touched> touched_by_sum(T* out, kernels::Contributions<T> from, std::size_t count) {
  std::vector<Touched> touched{{out, count * sizeof(T), true},
                               {from.own, count * sizeof(T), false}};
  for (int rank = 0; rank < from.world_size; ++rank) {
    if (rank == from.rank) continue;
    const T* block = from.received + static_cast<std::size_t>(rank) * from.stride;
    touched.push_back({block, count * sizeof(T), false});
  }
  return touched;
}

template <class T>
void register_for(const char* add, const char* sum) {
  register_kernel(add, add_inplace<T>, touched_by_add<T>);
  register_kernel(sum, add_rank_sum<T>, touched_by_sum<T>);
}

[[maybe_unused]] const bool registered = [] {
  register_for<__nv_bfloat16>("comm_bf16_add_inplace", "comm_bf16_add_rank_sum");
  register_for<__half>("comm_f16_add_inplace", "comm_f16_add_rank_sum");
  register_for<float>("comm_f32_add_inplace", "comm_f32_add_rank_sum");
  return true;
}();

}  // namespace
}  // namespace comm::simulated
