#include "comm/backends/nccl/premul_sum.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "comm/backends/nccl/native.h"
#include "comm/float_types.h"

namespace comm::detail::nccl {
namespace {

/// One element of any type.
struct Scalar {
  alignas(8) unsigned char bytes[8] = {};
};

template <class T>
Scalar scalar(T value) {
  Scalar s;
  std::memcpy(s.bytes, &value, sizeof value);
  return s;
}

/// To the nearest integer that `T` has; what is not a number is 0.
template <class T>
Scalar integer(double factor) {
  if (std::isnan(factor)) return scalar(T{0});
  const double nearest = std::nearbyint(factor);
  if (nearest <= static_cast<double>(std::numeric_limits<T>::min()))
    return scalar(std::numeric_limits<T>::min());
  if (nearest >= static_cast<double>(std::numeric_limits<T>::max()))
    return scalar(std::numeric_limits<T>::max());
  return scalar(static_cast<T>(nearest));
}

Scalar rounded(double factor, DataType type) {
  const auto single = static_cast<float>(factor);
  switch (type) {
    case DataType::i8: return integer<std::int8_t>(factor);
    case DataType::u8: return integer<std::uint8_t>(factor);
    case DataType::i32: return integer<std::int32_t>(factor);
    case DataType::u32: return integer<std::uint32_t>(factor);
    case DataType::i64: return integer<std::int64_t>(factor);
    case DataType::u64: return integer<std::uint64_t>(factor);
    case DataType::f16: return scalar(f16(single));
    case DataType::bf16: return scalar(bf16(single));
    case DataType::f32: return scalar(single);
    case DataType::f64: return scalar(factor);
    case DataType::f8e4m3: return scalar(f8e4m3(single));
    case DataType::f8e5m2: return scalar(f8e5m2(single));
  }
  return scalar(factor);
}

}  // namespace

CallOp::CallOp(ReduceOp op, DataType type, ncclComm_t comm) noexcept : comm_(comm) {
  if (op.kind() != ReduceOp::Kind::premul_sum) {
    op_ = native(op);
    return;
  }
  Scalar factor = rounded(op.factor(), type);
  result_ =
      ncclRedOpCreatePreMulSum(&op_, factor.bytes, native(type), ncclScalarHostImmediate, comm);
  is_made_ = result_ == ncclSuccess;
}

CallOp::~CallOp() {
  if (is_made_) (void)ncclRedOpDestroy(op_, comm_);
}

}  // namespace comm::detail::nccl
