#pragma once

/// How far N ranks may be from one: the bound on a difference that rounding alone explains.
///
/// What differs is the order of sums, and with BF16 the rounding of what travels. Where x is a row of
/// the input of a row-parallel product, w a column of its weights and p_r the N partial sums, the two
/// results of one all-reduce differ by at most
///
///     e = 2 g(n + N) |x| |w|
///         + 2^-8 (sum over r of |p_r| + sum over k > 0 of |p_0 + ... + p_k|)      with BF16 alone
///
/// with g(k) = k u / (1 - k u), u = 2^-24, and n the roundings an element passes through (Higham,
/// section 3.1; |x| and |w| are 2-norms, by Cauchy-Schwarz); the second line is a rounding of each
/// partial sum and of each addition, as a ring has them. What the stack makes of errors of that size is measured:
/// the model runs again with e added at random sign to each element of every sum. Rounding moves
/// elements by less, and as little in concert. The bound is `kMargin` times what comes out: 2 for the
/// roundings of everything else, which see inputs that differ, and 2 for text that was not probed.

#include <cstddef>
#include <cstdint>
#include <span>

#include "examples/tensor_parallel/parallel_wire.h"
#include "examples/tensor_parallel/shape.h"

namespace example {

inline constexpr float kMargin = 4;

/// The bound on any element of the model's output, probed with `text`.
float error_bound(const Shape& shape, std::span<const std::uint8_t> text, Element element,
                  int ranks);

/// The largest |a - b|; infinity where one is not a number.
float largest_difference(std::span<const float> a, std::span<const float> b);

}  // namespace example
