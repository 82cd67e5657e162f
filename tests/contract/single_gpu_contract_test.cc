// SingleGpu, plain and decorated, under the contract suite.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "comm/backends/single_gpu.h"
#include "comm/decorators/logged.h"
#include "comm/testing/contract_suite.h"

namespace {

template <class B>
struct World : comm::testing::HostMemory {
  using Backend = B;
  static std::vector<int> sizes() { return {1}; }

  template <class Body>
  static void run(int ranks, Body body, comm::Timeout = {}) {
    comm::testing::run_threads(ranks, [&](int) {
      auto made = comm::Communicator<B>::create();
      comm::testing::expect_ok(made);
      body(*made);
    });
  }
};

using Plain = World<comm::SingleGpu>;
using Logged = World<comm::Logged<comm::SingleGpu>>;

}  // namespace

TYPE_TO_STRING(Plain);
TYPE_TO_STRING(Logged);

COMM_CONTRACT_SUITE(Plain);
COMM_CONTRACT_SUITE(Logged);
