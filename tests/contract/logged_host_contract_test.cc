// Host with a flight recorder around it, and the log of the default stack, which the environment has
// switched off.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "comm/decorators/logged.h"
#include "comm/decorators/recorded.h"
#include "tests/contract/host_world.h"

using LoggedHost = HostWorld<comm::Logged<comm::Recorded<comm::Host>>>;

TYPE_TO_STRING(LoggedHost);
COMM_CONTRACT_SUITE(LoggedHost);
