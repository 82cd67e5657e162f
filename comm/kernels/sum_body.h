#pragma once

/// What the sum kernels compute, as functions of one worker among many: worker `first` of `workers`
/// takes the elements first, first + workers, ... A kernel makes each thread a worker; the host
/// reference is one worker that does it all. Where every pointer is aligned to 16 bytes the elements
/// are read and written 16 bytes at a time, and what is left over singly; otherwise all go singly.
/// An output may be one of the inputs; otherwise they do not overlap.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "comm/kernels/element.h"

namespace comm::kernels {

inline constexpr std::size_t kVectorBytes = 16;

template <class T>
inline constexpr std::size_t kVectorElements = kVectorBytes / sizeof(T);

template <class T>
struct Vector {
  T element[kVectorElements<T>];
};

template <class T>
COMM_HOST_DEVICE Vector<T> load_vector(const T* from) {
  Vector<T> vector;
#if defined(__CUDA_ARCH__)
  const uint4 bits = *reinterpret_cast<const uint4*>(from);
  std::memcpy(&vector, &bits, kVectorBytes);
#else
  std::memcpy(static_cast<void*>(&vector), from, kVectorBytes);
#endif
  return vector;
}

template <class T>
COMM_HOST_DEVICE void store_vector(T* to, const Vector<T>& vector) {
#if defined(__CUDA_ARCH__)
  uint4 bits;
  std::memcpy(&bits, &vector, kVectorBytes);
  *reinterpret_cast<uint4*>(to) = bits;
#else
  std::memcpy(static_cast<void*>(to), &vector, kVectorBytes);
#endif
}

COMM_HOST_DEVICE bool is_vector_aligned(const void* a, const void* b) {
  return ((reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b)) %
          kVectorBytes) == 0;
}

/// `accumulator[i] += addend[i]`, in float, rounded once.
template <class T>
COMM_HOST_DEVICE void add_inplace(T* accumulator, const T* addend, std::size_t count,
                                  std::size_t first, std::size_t workers) {
  std::size_t singles_from = 0;
  if (is_vector_aligned(accumulator, addend)) {
    const std::size_t vectors = count / kVectorElements<T>;
    singles_from = vectors * kVectorElements<T>;
    for (std::size_t v = first; v < vectors; v += workers) {
      const std::size_t at = v * kVectorElements<T>;
      Vector<T> sum = load_vector(accumulator + at);
      const Vector<T> more = load_vector(addend + at);
      for (std::size_t e = 0; e < kVectorElements<T>; ++e)
        sum.element[e] = rounded<T>(widened(sum.element[e]) + widened(more.element[e]));
      store_vector(accumulator + at, sum);
    }
  }
  for (std::size_t i = singles_from + first; i < count; i += workers)
    accumulator[i] = rounded<T>(widened(accumulator[i]) + widened(addend[i]));
}

/// The contributions of all ranks to one exchange: this rank's own where it is, the others' as they
/// were received, in blocks of `stride` elements, by rank; the block of this rank is not used.
template <class T>
struct Contributions {
  const T* own;
  const T* received;
  std::size_t stride;
  int rank;
  int world_size;

  COMM_HOST_DEVICE const T* of(int r) const {
    return r == rank ? own : received + static_cast<std::size_t>(r) * stride;
  }
};

/// `out[i]` = the sum over ranks of their element i, in rank order, in float, rounded once.
template <class T>
COMM_HOST_DEVICE void add_rank_sum(T* out, const Contributions<T>& from, std::size_t count,
                                   std::size_t first, std::size_t workers) {
  std::size_t singles_from = 0;
  if (is_vector_aligned(out, from.own) && is_vector_aligned(from.received, nullptr) &&
      from.stride % kVectorElements<T> == 0) {
    const std::size_t vectors = count / kVectorElements<T>;
    singles_from = vectors * kVectorElements<T>;
    for (std::size_t v = first; v < vectors; v += workers) {
      const std::size_t at = v * kVectorElements<T>;
      float sum[kVectorElements<T>];
      Vector<T> part = load_vector(from.of(0) + at);
      for (std::size_t e = 0; e < kVectorElements<T>; ++e) sum[e] = widened(part.element[e]);
      for (int r = 1; r < from.world_size; ++r) {
        part = load_vector(from.of(r) + at);
        for (std::size_t e = 0; e < kVectorElements<T>; ++e) sum[e] += widened(part.element[e]);
      }
      for (std::size_t e = 0; e < kVectorElements<T>; ++e) part.element[e] = rounded<T>(sum[e]);
      store_vector(out + at, part);
    }
  }
  for (std::size_t i = singles_from + first; i < count; i += workers) {
    float sum = widened(from.of(0)[i]);
    for (int r = 1; r < from.world_size; ++r) sum += widened(from.of(r)[i]);
    out[i] = rounded<T>(sum);
  }
}

}  // namespace comm::kernels
