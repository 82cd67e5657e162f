#pragma once

/// Order statistics of a few samples, and whether they are quiet enough to be believed.

#include <algorithm>
#include <cstddef>
#include <vector>

namespace comm::perf {

struct Statistics {
  double p50 = 0;
  double p99 = 0;
  double mean = 0;
  double spread = 0;  ///< Interquartile range over median.
};

inline Statistics statistics_of(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double q) {
    return samples[static_cast<std::size_t>(q * static_cast<double>(samples.size() - 1) + 0.5)];
  };
  double sum = 0;
  for (const double s : samples) sum += s;
  Statistics s;
  s.p50 = at(0.5);
  s.p99 = at(0.99);
  s.mean = sum / static_cast<double>(samples.size());
  s.spread = s.p50 > 0 ? (at(0.75) - at(0.25)) / s.p50 : 0;
  return s;
}

/// Above this, half of the samples differ so much that the median means little.
inline constexpr double kNoisySpread = 0.3;

/// Less than this is no time: the call is not in the object code.
inline constexpr double kShortestTime = 1e-3;  // us

}  // namespace comm::perf
