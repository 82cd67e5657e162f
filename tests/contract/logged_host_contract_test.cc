// Host with the log of the default stack around it, which the environment has switched off.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "comm/decorators/logged.h"
#include "tests/contract/host_world.h"

using LoggedHost = HostWorld<comm::Logged<comm::Host>>;

TYPE_TO_STRING(LoggedHost);
COMM_CONTRACT_SUITE(LoggedHost);
