#include "examples/tensor_parallel/report.h"

#include <doctest/doctest.h>

#include <limits>

namespace example {
namespace {

Outcome sound() {
  Outcome outcome;
  outcome.ranks.resize(2);
  for (RankReport& rank : outcome.ranks) rank.fingerprint = 5;
  outcome.difference = 1;
  outcome.bound = 2;
  return outcome;
}

TEST_CASE("outcome: holds if the ranks agree and the difference is within the bound") {
  CHECK(sound().held());

  Outcome disagreeing = sound();
  disagreeing.ranks[1].fingerprint = 6;
  CHECK(!disagreeing.held());

  Outcome far = sound();
  far.difference = 3;
  CHECK(!far.held());
  far.difference = std::numeric_limits<float>::quiet_NaN();
  CHECK(!far.held());
  far.difference = std::numeric_limits<float>::infinity();
  CHECK(!far.held());
}

}  // namespace
}  // namespace example
