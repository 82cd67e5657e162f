// comm/log.h and comm/logger.h: levels, lines, and what may not flood.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "comm/log.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "comm/logger.h"
#include "comm/testing/expect.h"

using comm::LogLevel, comm::LogLevels, comm::LogPart, comm::LogSink;
using comm::testing::expect_part;

namespace {

struct Lines {
  std::vector<std::string> lines;

  LogSink sink() {
    auto keep = [](void* lines, const char* line) {
      static_cast<std::vector<std::string>*>(lines)->push_back(line);
    };
    return LogSink(keep, &lines);
  }
  comm::detail::Logger::Sink function() {
    return [this](std::string_view line) { lines.emplace_back(line); };
  }
};

/// What the environment says, with these variables; a null one is not there.
LogLevels from_env(Lines& lines, const char* log, const char* diagnostics) {
  log == nullptr ? ::unsetenv("COMM_LOG") : ::setenv("COMM_LOG", log, 1);
  diagnostics == nullptr ? ::unsetenv("COMM_DIAGNOSTICS")
                         : ::setenv("COMM_DIAGNOSTICS", diagnostics, 1);
  const LogLevels levels = LogLevels::from_env(lines.sink());
  ::unsetenv("COMM_LOG");
  ::unsetenv("COMM_DIAGNOSTICS");
  return levels;
}

}  // namespace

TEST_CASE("log levels: one word is for all parts, part=level for one, in any order") {
  CHECK(LogLevels().of(LogPart::nccl) == LogLevel::warn);
  for (const char* text : {"info,rendezvous=debug", "rendezvous=debug,info"}) {
    const auto levels = LogLevels::parse(text);
    REQUIRE(levels.ok());
    CHECK(levels->of(LogPart::rendezvous) == LogLevel::debug);
    for (LogPart part : {LogPart::host, LogPart::nccl, LogPart::faulty, LogPart::operations})
      CHECK(levels->of(part) == LogLevel::info);
  }
  CHECK(LogLevels::parse("")->of(LogPart::host) == LogLevel::warn);
  const auto off = LogLevels::parse("off");
  REQUIRE(off.ok());
  for (LogLevel level : {LogLevel::off, LogLevel::error, LogLevel::trace})
    CHECK_FALSE(off->is_on(LogPart::host, level));
}

TEST_CASE("log levels: what is not understood is named, with what would be") {
  for (const char* text : {"loud", "info,nccl", "nccl=loud", "all=info", "=info", "nccl=", ",,x",
                           "info;debug", "INFO"}) {
    const auto levels = LogLevels::parse(text);
    INFO(text);
    CHECK(levels.code() == comm::StatusCode::invalid_argument);
    expect_part(levels.message(), "cannot read '");
    expect_part(levels.message(), "off, error, warn, info, debug, trace");
  }
  expect_part(LogLevels::parse("info,nccl=loud").message(), "'nccl=loud'");
}

TEST_CASE("log levels: the environment, and one complaint about a malformed one") {
  Lines lines;
  CHECK(from_env(lines, nullptr, nullptr) == LogLevels());
  CHECK(from_env(lines, "debug", nullptr) == LogLevels(LogLevel::debug));
  CHECK(from_env(lines, "off", "1").of(LogPart::operations) == LogLevel::trace);
  CHECK(from_env(lines, "off", "1").of(LogPart::nccl) == LogLevel::off);
  CHECK(from_env(lines, nullptr, "yes") == LogLevels());
  CHECK(lines.lines.empty());
  CHECK(from_env(lines, "debug,hots=info", nullptr) == LogLevels());
  REQUIRE(lines.lines.size() == 1);
  expect_part(lines.lines[0], "comm: COMM_LOG: cannot read 'hots=info'");
}

TEST_CASE("log: a line says who, which part and how bad; lower levels say nothing") {
  Lines lines;
  const comm::LogSettings settings{lines.sink(), LogLevels(LogLevel::info)};
  write_log(settings, {1, 4, 7}, LogPart::nccl, LogLevel::info, "made of %d\nparts", 3);
  write_log(settings, {}, LogPart::host, LogLevel::error, "x");
  write_log(settings, {1, 4, 7}, LogPart::nccl, LogLevel::debug, "not said");
  const std::vector<std::string> expected = {
      "comm: rank=1 world=4 epoch=7 nccl info: made of 3 parts\n", "comm: host error: x\n"};
  CHECK(lines.lines == expected);
  write_log(settings, {}, LogPart::host, LogLevel::error, "%s", std::string(5000, 'x').c_str());
  CHECK(lines.lines.back().size() < 1100);
  CHECK(lines.lines.back().back() == '\n');
}

TEST_CASE("logger: the epoch is there once it is known; others can log to the same place") {
  Lines lines;
  comm::detail::Logger log(lines.function(), LogLevels(LogLevel::info), LogPart::rendezvous, 2, 3);
  CHECK_FALSE(log.is_on(LogLevel::debug));
  log.say(LogLevel::warn, "early");
  log.set_epoch(5);
  log.say(LogLevel::warn, "late");
  write_log(log.settings(), {2, 3}, LogPart::faulty, LogLevel::info, "beside");
  const std::vector<std::string> expected = {"comm: rank=2 world=3 rendezvous warn: early",
                                             "comm: rank=2 world=3 epoch=5 rendezvous warn: late",
                                             "comm: rank=2 world=3 faulty info: beside"};
  CHECK(lines.lines == expected);
}

TEST_CASE("logger: a flood is cut off after a burst, and counted") {
  Lines lines;
  comm::detail::Logger log(lines.function(), LogLevels(), LogPart::rendezvous, 0, 2);
  for (int i = 0; i < 10'000; ++i) log.say_limited(LogLevel::warn, "a stranger");
  // 20 at once, and two a second for as long as a slow machine takes.
  CHECK(lines.lines.size() >= 20);
  CHECK(lines.lines.size() < 1000);
  log.say(LogLevel::warn, "never limited");
  expect_part(lines.lines.back(), "never limited");
}
