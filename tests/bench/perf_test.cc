// The parts of comm_perf that decide what is measured and what is right.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "bench/perf/machine.h"
#include "bench/perf/operation.h"
#include "bench/perf/options.h"
#include "bench/perf/pattern.h"
#include "bench/perf/report.h"
#include "bench/perf/statistics.h"

using namespace comm::perf;  // NOLINT: the test is about all of it

namespace {

comm::Result<Options> parse(std::vector<std::string> words) {
  std::vector<char*> argv;
  words.insert(words.begin(), "comm_perf");
  for (std::string& word : words) argv.push_back(word.data());
  return parse_options(static_cast<int>(argv.size()), argv.data());
}

}  // namespace

TEST_CASE("sizes in bytes: binary multiples, and nothing else") {
  CHECK(parse_bytes("8") == 8);
  CHECK(parse_bytes("64K") == 65536);
  CHECK(parse_bytes("1.5M") == 1572864);
  CHECK(parse_bytes("2g") == std::size_t{2} << 30);
  for (const char* bad : {"", "K", "-1", "8B", "1e3", "1.2.3", "9999999999G", "0x10", " 8"})
    CHECK_MESSAGE(!parse_bytes(bad), bad);
}

TEST_CASE("options: the flags of nccl-tests") {
  auto o = parse({"all_gather", "-b", "16", "-e", "1M", "-f", "4", "-t",          "bf16",    "-o",
                  "max",        "-n", "7",  "-w", "1",  "-c", "0", "--symmetric", "--ranks", "4"});
  REQUIRE(o.ok());
  CHECK(o->operation == "all_gather");
  CHECK(o->type == comm::DataType::bf16);
  CHECK(o->op == comm::ReduceOp::max);
  CHECK(o->iterations == 7);
  CHECK(o->ranks == 4);
  CHECK(o->symmetric);
  CHECK_FALSE(o->check);
  CHECK(sizes(*o) ==
        std::vector<std::size_t>{16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576});
}

TEST_CASE("options: what is wrong is named") {
  const auto complains = [](std::vector<std::string> words, const char* about) {
    auto o = parse(std::move(words));
    return !o.ok() && std::string(o.message()).find(about) != std::string::npos;
  };
  CHECK(complains({"all_redu"}, "'all_redu'"));
  CHECK(complains({"all_reduce", "broadcast"}, "one was named already"));
  CHECK(complains({"all_reduce", "-b", "x"}, "-b 'x'"));
  CHECK(complains({"all_reduce", "-f", "1"}, "-f '1'"));
  CHECK(complains({"all_reduce", "-t", "f31"}, "-t 'f31'"));
  CHECK(complains({"all_reduce", "-o", "xor"}, "-o 'xor'"));
  CHECK(complains({"all_reduce", "-n", "0"}, "-n '0'"));
  CHECK(complains({"all_reduce", "-n"}, "'-n'"));
  CHECK(complains({"all_reduce", "-b", "2M", "-e", "1M"}, "larger than -e"));
}

TEST_CASE("options: the types of nccl-tests by their names there") {
  CHECK(parse_type("float") == comm::DataType::f32);
  CHECK(parse_type("bfloat16") == comm::DataType::bf16);
  CHECK(parse_type("fp8_e5m2") == comm::DataType::f8e5m2);
  CHECK(parse_type("half") == parse_type("f16"));
  CHECK_FALSE(parse_type("int16"));
}

TEST_CASE("sizes: a step, and a factor too small to move an integer") {
  Options o;
  o.min_bytes = 4;
  o.max_bytes = 12;
  o.step_bytes = 4;
  CHECK(sizes(o) == std::vector<std::size_t>{4, 8, 12});
  o.step_bytes = 0;
  o.step_factor = 1.01;
  CHECK(sizes(o).size() == 9);
}

TEST_CASE("pattern: sums of 64 ranks are exact in every type that can hold them") {
  for (std::size_t i = 0; i < 40; ++i) {
    const double sum = reduced(64, i, comm::ReduceOp::sum, false);
    CHECK(to_double(from_double<comm::bf16>(sum)) == sum);
    CHECK(to_double(from_double<std::uint8_t>(sum)) == sum);
    CHECK(reduced(64, i, comm::ReduceOp::prod, true) <= 127);
  }
}

TEST_CASE("bus bandwidth: the factors of nccl-tests") {
  CHECK(bus_factor(Kind::all_reduce, 2) == doctest::Approx(1.0));
  CHECK(bus_factor(Kind::all_reduce, 8) == doctest::Approx(1.75));
  CHECK(bus_factor(Kind::all_gather, 4) == doctest::Approx(0.75));
  CHECK(bus_factor(Kind::broadcast, 4) == doctest::Approx(1.0));
}

TEST_CASE("statistics: median, tail and spread; noise is seen") {
  std::vector<double> quiet;
  for (int i = 1; i <= 101; ++i) quiet.push_back(100 + 0.01 * i);
  const Statistics s = statistics_of(quiet);
  CHECK(s.p50 == doctest::Approx(100.51));
  CHECK(s.p99 == doctest::Approx(101.00));
  CHECK(s.spread < kNoisySpread);
  CHECK(statistics_of({1, 1, 1, 9, 9, 9, 9}).spread > kNoisySpread);
}

TEST_CASE("a machine that is busy, or has too few cores, is named; a quiet one is not") {
  CHECK(machine_warnings(2, 2, 0.1).empty());
  CHECK(machine_warnings(0, 2, 0.1).empty());
  CHECK(machine_warnings(4, 2, 0.1).find("4 ranks share 2 cores") != std::string::npos);
  CHECK(machine_warnings(2, 8, 3.0).find("a load of 3.0 on 8 cores") != std::string::npos);
}

TEST_CASE("report: a row whose samples differ is noisy, unless it takes no time at all") {
  Row row;
  row.out_of_place.measured = true;
  row.out_of_place.p50 = 1.5;
  CHECK_FALSE(is_noisy(row));
  row.out_of_place.spread = 2 * kNoisySpread;
  CHECK(is_noisy(row));
  row.out_of_place.p50 = 1e-5;
  CHECK_FALSE(is_noisy(row));
}

TEST_CASE("report: wrong elements are counted, and written") {
  Run run;
  Row row;
  row.bytes = 8;
  row.count = 2;
  row.out_of_place.measured = true;
  row.out_of_place.p50 = 1.5;
  row.out_of_place.wrong = 3;
  run.rows.push_back(row);
  CHECK(wrong_elements(run) == 3);
  CHECK(to_json(run).find("\"wrong\": 3") != std::string::npos);
  CHECK(to_json(run).find("\"in_place\": null") != std::string::npos);
  CHECK(to_svg(run).find("<polyline") != std::string::npos);
}
