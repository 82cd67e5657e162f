// Every collective with the element types that are floats.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "tests/host/collectives.h"

TEST_CASE_TEMPLATE("collectives equal the plain reference, bit for bit", T, comm::f16, comm::bf16,
                   float, double, comm::f8e4m3, comm::f8e5m2) {
  collectives::check_all<T>();
}
