// Host under the contract suite.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "tests/contract/host_world.h"

using Host = HostWorld<comm::Host>;

TYPE_TO_STRING(Host);
COMM_CONTRACT_SUITE(Host);
