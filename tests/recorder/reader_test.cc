// comm/trace/reader.h: what a recorder wrote is read; anything else is one error with file and place.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "comm/trace/reader.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <random>
#include <string>

#include "comm/trace/html.h"
#include "comm/trace/table.h"
#include "tests/recorder/recorder.h"

using comm::trace::parse_dump;

namespace {

std::string real_dump() {
  tests::Recorder<tests::TestBackend<false>> rank;
  CHECK(rank.c.all_reduce(rank.buffer(5)).ok());
  CHECK(rank.c.broadcast(rank.buffer(3), 2).ok());
  CHECK(rank.c.send_recv(rank.buffer(3), 2, rank.buffer(0), 0).ok());
  rank.recording.answer = comm::StatusCode::timeout;
  CHECK_FALSE(rank.c.barrier().ok());
  return comm::recorder_of(rank.c).to_json();
}

std::string why_not(const std::string& text) {
  auto dump = parse_dump(text, "d.json");
  return dump.ok() ? "" : dump.message();
}

std::string with(std::string text, const std::string& what, const std::string& instead) {
  const std::size_t at = text.find(what);
  REQUIRE_MESSAGE(at != std::string::npos, what);
  return text.replace(at, what.size(), instead);
}

void expect(const std::string& text, const std::string& part) {
  const std::string said = why_not(text);
  CHECK_MESSAGE(said.find("d.json: byte ") == 0, said);
  CHECK_MESSAGE(said.find(part) != std::string::npos, said);
}

}  // namespace

TEST_CASE("reader: members that a later comm may add are left alone") {
  const std::string dump = real_dump();
  CHECK(why_not(dump) == "");
  CHECK(why_not(with(dump, "\"version\":1,", "\"version\":1,\"new\":{\"a\":[1,{\"b\":[]}]},")) ==
        "");
  CHECK(why_not(with(dump, "{\"seq\":1,", "{\"seq\":1,\"new\":[{\"seq\":\"x\"}],")) == "");
}

TEST_CASE("reader: a dump that is cut off anywhere is refused, with where") {
  std::string dump = real_dump();
  while (dump.back() != '}') dump.pop_back();
  for (std::size_t size = 0; size < dump.size(); ++size) {
    const std::string said = why_not(dump.substr(0, size));
    CHECK_MESSAGE(said.find("d.json: byte ") == 0, size, ": ", said);
  }
  expect(dump.substr(0, dump.size() / 2), "the file is not whole");
}

TEST_CASE("reader: what is wrong is named, with where") {
  const std::string dump = real_dump();
  expect("", "not whole");
  expect("[]", "not an object");
  expect("17", "not an object");
  expect("{}", "not a dump");
  expect(with(dump, "comm-flight-recorder", "other"), "\"format\" is not");
  expect(with(dump, "\"version\":1", "\"version\":2"), "\"version\" is not 1");
  expect(with(dump, "\"rank\":1", "\"rank\":4"), "rank is not below");
  expect(with(dump, "\"rank\":1", "\"rank\":-1"), "\"rank\" is no whole number");
  expect(with(dump, "\"rank\":1", "\"rank\":1e999"), "no number that a dump can have");
  expect(with(dump, "\"world_size\":4", "\"world_size\":99999999999"),
         "\"world_size\" is too large");
  expect(with(dump, "\"name\":\"world\"", "\"name\":7"), "\"name\" is no text");
  expect(with(dump, "\"op\":\"all_reduce\"", "\"op\":\"all_in\""), "\"op\" is no operation");
  expect(with(dump, "\"type\":\"f32\"", "\"type\":\"f33\""), "\"type\" is no type");
  expect(with(dump, "\"count\":5", "\"count\":5.5"), "\"count\" is no whole number");
  expect(with(dump, "\"state\":\"complete\"", "\"state\":\"fine\""), "\"state\" is no state");
  expect(with(dump, "\"seq\":2", "\"seq\":1"), "order of \"seq\"");
  expect(with(dump, "\"peer\":2", "\"peer\":9"), "peer is no rank");
  expect(with(dump, "\"source\":0", "\"source\":9"), "source is no rank");
  expect(with(dump, "\"entries\":[", "\"entries\":7,\"x\":["), "\"entries\" is no list");
  expect(with(dump, "\"entries\":[", "\"entries\":{},\"x\":["), "\"entries\" is no list");
  expect(with(dump, "\"reason\"", "\"\xff\""), "byte");
  expect(std::string(100'000, '['), "not an object");
  expect("{\"a\":" + std::string(100'000, '['), "nested too deeply");
}

TEST_CASE("reader: what is no file that can be read is an error, too") {
  CHECK_FALSE(comm::trace::read_dump("/nonexistent").ok());
  CHECK_FALSE(comm::trace::read_dump("/").ok());
  CHECK_FALSE(comm::trace::read_dump("/dev/zero").ok());
}

// The bytes of a dump, changed at random (by a seed, so the same in each run): read, or refused, and
// what is read can be analysed and shown.
TEST_CASE("reader: whatever the bytes are, there is a dump or an error") {
  const std::string dump = real_dump();
  std::mt19937 random(1);
  int read = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text = dump;
    for (auto times = 1 + random() % 3; times > 0; --times) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0: text[at] = static_cast<char>(random()); break;
        case 1: text[at] = static_cast<char>('0' + random() % 10); break;
        case 2: text.erase(at, 1 + random() % 8); break;
        default: text.insert(at, text.substr(random() % text.size(), random() % 30));
      }
      if (text.empty()) text = "x";
    }
    auto result = parse_dump(text, "d.json");
    if (!result.ok()) continue;
    ++read;
    std::vector<comm::trace::Dump> dumps;
    dumps.push_back(std::move(*result));
    for (const comm::trace::World& world : comm::trace::sort_into_worlds(std::move(dumps))) {
      const comm::trace::View view(world, 0);
      const comm::trace::Report report = comm::trace::analyse(view);
      CHECK(comm::trace::table(view, report).size() < 100'000);
      if (read % 16 == 0) CHECK(comm::trace::html(view, report).size() > 1000);
    }
  }
  CHECK(read > 100);
}
