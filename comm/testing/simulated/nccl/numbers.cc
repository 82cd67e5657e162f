#include "comm/testing/simulated/nccl/numbers.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace comm::simulated::detail {
namespace {

// How a stored element is widened for arithmetic and rounded again.
template <class Stored>
struct Element {
  using Wide = Stored;
  static Wide widen(Stored value) { return value; }
  static Stored round(Wide value) { return value; }
};

template <>
struct Element<__half> {
  using Wide = float;
  static float widen(__half value) { return __half2float(value); }
  static __half round(float value) { return __float2half_rn(value); }
};

template <>
struct Element<__nv_bfloat16> {
  using Wide = float;
  static float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
  static __nv_bfloat16 round(float value) { return __float2bfloat16_rn(value); }
};

template <>
struct Element<__nv_fp8_e4m3> {
  using Wide = float;
  static float widen(__nv_fp8_e4m3 value) { return static_cast<float>(value); }
  static __nv_fp8_e4m3 round(float value) { return __nv_fp8_e4m3(value); }
};

template <>
struct Element<__nv_fp8_e5m2> {
  using Wide = float;
  static float widen(__nv_fp8_e5m2 value) { return static_cast<float>(value); }
  static __nv_fp8_e5m2 round(float value) { return __nv_fp8_e5m2(value); }
};

// Unsigned arithmetic wraps without undefined behaviour. 64 bits wide, since narrower types would
// be promoted to int, whose product overflows.
template <class Wide>
Wide add(Wide a, Wide b) {
  if constexpr (std::is_integral_v<Wide>) {
    return static_cast<Wide>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}

template <class Wide>
Wide multiply(Wide a, Wide b) {
  if constexpr (std::is_integral_v<Wide>) {
    return static_cast<Wide>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  } else {
    return a * b;
  }
}

template <class Wide>
Wide larger(Wide a, Wide b) {
  if constexpr (std::is_integral_v<Wide>) {
    return a < b ? b : a;
  } else {
    return std::fmax(a, b);
  }
}

template <class Wide>
Wide smaller(Wide a, Wide b) {
  if constexpr (std::is_integral_v<Wide>) {
    return b < a ? b : a;
  } else {
    return std::fmin(a, b);
  }
}

template <class Stored>
Stored load(const char* bytes) {
  Stored value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

template <class Stored>
void reduce_as(Reduction reduction, const std::vector<const char*>& inputs,
               const std::vector<const char*>& scalars, std::size_t count, char* out) {
  using E = Element<Stored>;
  using Wide = typename E::Wide;
  constexpr bool is_integer = std::is_integral_v<Wide>;

  std::vector<Wide> factors;  // Of each input, where they are multiplied first.
  if (reduction == Reduction::premul_sum) {
    for (const char* scalar : scalars) factors.push_back(E::widen(load<Stored>(scalar)));
  }
  if constexpr (!is_integer) {
    if (reduction == Reduction::avg) {
      const Wide factor = Wide{1} / static_cast<Wide>(inputs.size());
      factors.assign(inputs.size(), E::widen(E::round(factor)));
    }
  }
  const auto term = [&](std::size_t input, std::size_t i) {
    const Wide value = E::widen(load<Stored>(inputs[input] + i * sizeof(Stored)));
    if (factors.empty()) return value;
    return E::widen(E::round(multiply(value, factors[input])));
  };
  for (std::size_t i = 0; i < count; ++i) {
    Wide value = term(0, i);
    for (std::size_t input = 1; input < inputs.size(); ++input) {
      const Wide next = term(input, i);
      switch (reduction) {
        case Reduction::prod: value = multiply(value, next); break;
        case Reduction::max: value = larger(value, next); break;
        case Reduction::min: value = smaller(value, next); break;
        case Reduction::sum:
        case Reduction::avg:
        case Reduction::premul_sum: value = add(value, next); break;
      }
    }
    if constexpr (is_integer) {
      if (reduction == Reduction::avg)
        value = static_cast<Wide>(value / static_cast<Wide>(inputs.size()));
    }
    const Stored rounded = E::round(value);
    std::memcpy(out + i * sizeof(Stored), &rounded, sizeof(rounded));
  }
}

}  // namespace

std::size_t size_of(ncclDataType_t type) {
  switch (static_cast<int>(type)) {
    case ncclInt8:
    case ncclUint8: return 1;
    case kFloat8e4m3:
    case kFloat8e5m2: return kHasFloat8 ? 1 : 0;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
    default: return 0;
  }
}

const char* name_of(ncclDataType_t type) {
  constexpr const char* kNames[] = {"int8",    "uint8",    "int32",      "uint32",
                                    "int64",   "uint64",   "float16",    "float32",
                                    "float64", "bfloat16", "float8e4m3", "float8e5m2"};
  return size_of(type) == 0 ? "no type" : kNames[type];
}

const char* name_of(Reduction reduction) {
  constexpr const char* kNames[] = {"sum", "prod", "max", "min", "avg", "pre-multiplied sum"};
  return kNames[static_cast<int>(reduction)];
}

void reduce(ncclDataType_t type, Reduction reduction, const std::vector<const char*>& inputs,
            const std::vector<const char*>& scalars, std::size_t count, char* out) {
  const auto run = [&](auto stored) {
    reduce_as<decltype(stored)>(reduction, inputs, scalars, count, out);
  };
  switch (static_cast<int>(type)) {
    case ncclInt8: return run(std::int8_t{});
    case ncclUint8: return run(std::uint8_t{});
    case ncclInt32: return run(std::int32_t{});
    case ncclUint32: return run(std::uint32_t{});
    case ncclInt64: return run(std::int64_t{});
    case ncclUint64: return run(std::uint64_t{});
    case ncclFloat16: return run(__half{});
    case ncclFloat32: return run(float{});
    case ncclFloat64: return run(double{});
    case ncclBfloat16: return run(__nv_bfloat16{});
    case kFloat8e4m3: return run(__nv_fp8_e4m3{});
    case kFloat8e5m2: return run(__nv_fp8_e5m2{});
    default: return;
  }
}

}  // namespace comm::simulated::detail
