// every_operation.cc without comm.

#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace engine {

void compute(const float* weights, float* activations, std::size_t count);

const float* decode_step(const float* weights, float* a, float*, std::size_t count, std::uint32_t*,
                         CUstream_st*) {
  compute(weights, a, count);
  compute(weights, a, count);
  compute(weights, a, count);
  return a;
}

}  // namespace engine
