#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include "comm/testing/contract_suite.h"
#include "tests/nccl/world.h"

using BlockingNccl = comm::testing::NcclWorld<comm::NcclMode::blocking>;
using NonBlockingNccl = comm::testing::NcclWorld<comm::NcclMode::non_blocking>;
TYPE_TO_STRING(BlockingNccl);
TYPE_TO_STRING(NonBlockingNccl);

COMM_CONTRACT_SUITE(BlockingNccl);
COMM_CONTRACT_SUITE(NonBlockingNccl);
