// Every collective with the element types that are integers.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "tests/host/collectives.h"

TEST_CASE_TEMPLATE("collectives equal the plain reference, bit for bit", T, std::int8_t,
                   std::uint8_t, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t) {
  collectives::check_all<T>();
}
