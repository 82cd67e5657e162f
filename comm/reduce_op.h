#pragma once

/// `ReduceOp` is how contributions become one: `ReduceOp::sum`, `prod`, `min`, `max`, `avg`, or
/// `ReduceOp::premul_sum(factor)`, which multiplies this rank's contribution by `factor` first.
///
/// Integers wrap on overflow; `avg` of integers divides the wrapped sum, towards zero; `avg` of
/// floats scales by 1/n in the element type where NCCL does so. `factor` is rounded to the element
/// type once. (NCCL: `ncclRedOp_t`, `ncclRedOpCreatePreMulSum`.)

#include <cstdint>

#include "comm/language.h"

namespace comm {

class ReduceOp {
 public:
  enum class Kind : std::uint8_t { sum, prod, min, max, avg, premul_sum };

  static const ReduceOp sum;
  static const ReduceOp prod;
  static const ReduceOp min;
  static const ReduceOp max;
  static const ReduceOp avg;

  static constexpr ReduceOp premul_sum(double factor) { return {Kind::premul_sum, factor}; }

  constexpr Kind kind() const { return kind_; }

  /// What this rank's contribution is multiplied by; 1 unless this is `premul_sum`.
  constexpr double factor() const { return factor_; }

  constexpr bool operator==(const ReduceOp&) const = default;

 private:
  constexpr ReduceOp(Kind kind, double factor) : kind_(kind), factor_(factor) {}

  Kind kind_;
  double factor_;
};

inline constexpr ReduceOp ReduceOp::sum{Kind::sum, 1};
inline constexpr ReduceOp ReduceOp::prod{Kind::prod, 1};
inline constexpr ReduceOp ReduceOp::min{Kind::min, 1};
inline constexpr ReduceOp ReduceOp::max{Kind::max, 1};
inline constexpr ReduceOp ReduceOp::avg{Kind::avg, 1};

/// The operation as it is spelled above, for messages.
constexpr const char* to_string(ReduceOp op) {
  switch (op.kind()) {
    case ReduceOp::Kind::sum: return "sum";
    case ReduceOp::Kind::prod: return "prod";
    case ReduceOp::Kind::min: return "min";
    case ReduceOp::Kind::max: return "max";
    case ReduceOp::Kind::avg: return "avg";
    case ReduceOp::Kind::premul_sum: return "premul_sum";
  }
  return "unknown";
}

}  // namespace comm
