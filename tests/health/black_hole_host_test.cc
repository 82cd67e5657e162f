// A rank whose cable is pulled, with Host: memory is shared still, but whoever cannot be told of
// failures counts as lost.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "comm/backends/host.h"
#include "tests/health/black_hole.h"

namespace {

struct OnHost {
  using Backend = comm::Host;
  static constexpr bool kLosesData = false;

  static comm::Host::Config config(int) {
    comm::Host::Config config;
    config.collective_timeout = comm::test::kDeadline;
    config.log = [](std::string_view) {};
    return config;
  }

  class Numbers {
   public:
    comm::DeviceSpan<int> span() { return comm::DeviceSpan<int>(values_); }
    void fill(int value) { values_.assign(values_.size(), value); }
    bool all_are(int value) const { return values_ == std::vector<int>(values_.size(), value); }

   private:
    std::vector<int> values_ = std::vector<int>(5000);
  };

  static void lose_data() {}
  static auto ear(const comm::Communicator<comm::Host>&) {
    return [] { return true; };
  }
};

const comm::test::BlackHole<OnHost>& black_hole() {
  static const comm::test::BlackHole<OnHost> only;
  return only;
}

}  // namespace

TEST_CASE("Host: a cable that is out for 300 ms is not noticed, and the results are right") {
  black_hole().passes(1, 300);
}

TEST_CASE("Host: a rank whose cable is pulled is named by all others, whatever they wait in") {
  black_hole().swallows(2);
}

TEST_CASE("Host: so is rank 0, and it learns that it is cut off itself") {
  black_hole().swallows(0);
}
