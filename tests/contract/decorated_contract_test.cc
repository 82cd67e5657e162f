// A decorator changes nothing that its backend promises: Logged, and Timed of
// examples/custom_decorator, both at once, around a backend that moves data.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "comm/decorators/logged.h"
#include "examples/custom_decorator/timed.h"
#include "tests/contract/loopback_world.h"

// The log is on, and goes nowhere.
struct Decorate {
  example::Timed<comm::Logged<example::Loopback>> operator()(example::Loopback inner) const {
    comm::LogSink nowhere([](void*, const char*) {}, nullptr);
    return example::Timed<comm::Logged<example::Loopback>>(comm::Logged(std::move(inner), nowhere));
  }
};

using Decorated = LoopbackWorld<Decorate>;

TYPE_TO_STRING(Decorated);
COMM_CONTRACT_SUITE(Decorated);
