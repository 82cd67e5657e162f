// Host with its calls compared, and with a log around that: comparing changes nothing that is promised.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "comm/decorators/checked.h"
#include "comm/decorators/logged.h"
#include "tests/contract/host_world.h"

using Host = HostWorld<comm::Logged<comm::Checked<comm::Host>>>;

TYPE_TO_STRING(Host);
COMM_CONTRACT_SUITE(Host);
