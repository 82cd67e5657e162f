// Nccl with its calls compared over the rendezvous' channel: comparing changes nothing that is promised.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include "comm/decorators/checked.h"
#include "comm/testing/contract_suite.h"
#include "tests/nccl/world.h"

struct CheckedNccl : comm::testing::NcclWorld<comm::NcclMode::blocking> {
  using Backend = comm::Checked<comm::Nccl>;

  template <class Body>
  static void run(int ranks, Body body, comm::Timeout collective = {}) {
    comm::testing::on_ranks(ranks, [&](int, comm::NcclConfig config) {
      if (collective.is_given())
        config.collective_timeout =
            std::chrono::milliseconds(collective.nanoseconds_or(0) / 1'000'000);
      auto made = comm::Communicator<Backend>::create(config);
      CHECK(comm::testing::said(made) == "ok");
      if (made.ok()) body(*made);
    });
  }
};
TYPE_TO_STRING(CheckedNccl);

COMM_CONTRACT_SUITE(CheckedNccl);
