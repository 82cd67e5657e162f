// The backend of examples/custom_backend, which knows nothing of the suite, under the suite.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "tests/contract/loopback_world.h"

using Loopback = LoopbackWorld<>;

TYPE_TO_STRING(Loopback);
COMM_CONTRACT_SUITE(Loopback);
