#include "comm/kernels/host_kernels.h"

#include <cstddef>

#include "comm/kernels/sum_body.h"

namespace comm::kernels {
namespace {

template <class T>
T argument(void** arguments, int index) {
  return *static_cast<T*>(arguments[index]);
}

template <class T>
void run_add_inplace(void** arguments) {
  add_inplace(argument<T*>(arguments, 0), argument<const T*>(arguments, 1),
              argument<std::size_t>(arguments, 2), 0, 1);
}

template <class T>
void run_add_rank_sum(void** arguments) {
  add_rank_sum(argument<T*>(arguments, 0), argument<Contributions<T>>(arguments, 1),
               argument<std::size_t>(arguments, 2), 0, 1);
}

constexpr HostKernel kKernels[] = {
    {"comm_bf16_add_inplace", run_add_inplace<__nv_bfloat16>},
    {"comm_f16_add_inplace", run_add_inplace<__half>},
    {"comm_f32_add_inplace", run_add_inplace<float>},
    {"comm_bf16_add_rank_sum", run_add_rank_sum<__nv_bfloat16>},
    {"comm_f16_add_rank_sum", run_add_rank_sum<__half>},
    {"comm_f32_add_rank_sum", run_add_rank_sum<float>},
};

}  // namespace

std::span<const HostKernel> host_kernels() noexcept {
  return kKernels;
}

}  // namespace comm::kernels
