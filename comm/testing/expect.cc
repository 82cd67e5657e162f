#include "comm/testing/expect.h"

#include <doctest/doctest.h>

namespace comm::testing {
namespace {

/// The one place that counts.
void record(bool holds, const std::string& complaint, const char* file, int line) {
  if (holds) {
    CHECK(holds);
  } else {
    ADD_FAIL_CHECK_AT(file, line, complaint);
  }
}

}  // namespace

std::string outcome(const Status& s) {
  if (s.ok()) return "ok";
  return std::string(to_string(s.code())) + ": " + s.message();
}

void expect(bool holds, const char* file, int line) {
  record(holds, "what this line expects does not hold", file, line);
}

void expect_equal(std::int64_t actual, std::int64_t expected, const char* file, int line) {
  record(actual == expected, std::to_string(actual) + " instead of " + std::to_string(expected),
         file, line);
}

void expect_same(const std::string& actual, const std::string& expected, const char* file,
                 int line) {
  record(actual == expected, "'" + actual + "' instead of '" + expected + "'", file, line);
}

void expect_ok(const Status& s, const char* file, int line) {
  record(s.ok(), s.ok() ? std::string() : outcome(s), file, line);
}

void expect_code(const Status& s, StatusCode code, const char* file, int line) {
  record(s.code() == code,
         "'" + outcome(s) + "' instead of an error of code " + std::string(to_string(code)), file,
         line);
}

void expect_nothing(const std::string& complaint, const char* file, int line) {
  record(complaint.empty(), complaint, file, line);
}

void expect_part(const std::string& text, const std::string& part, const char* file, int line) {
  const bool holds = text.find(part) != std::string::npos;
  record(holds, holds ? std::string() : "'" + text + "' lacks '" + part + "'", file, line);
}

}  // namespace comm::testing
