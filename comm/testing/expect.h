#pragma once

/// doctest checks of an outcome, each one call: a suite that is instantiated for many types compiles
/// in a fraction of the time that as many CHECK macros take. Each counts as one assertion and names
/// the caller's line.
///
///     expect_ok(c.barrier());
///     expect_nothing(difference(actual, expected));
///
/// Thread safety: as CHECK, from any thread of a running test case.

#include <concepts>
#include <cstdint>
#include <string>

#include "comm/result.h"
#include "comm/status.h"

namespace comm::testing {

/// "ok", or the code and the message.
std::string outcome(const Status& s);
template <class T>
std::string outcome(const Result<T>& r) {
  return outcome(r.status());
}

void expect(bool holds, const char* file = __builtin_FILE(), int line = __builtin_LINE());

void expect_equal(std::int64_t actual, std::int64_t expected, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE());

template <class A, class B>
  requires(std::integral<A>&& std::integral<B>)
void expect_equal(A actual, B expected, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  expect_equal(static_cast<std::int64_t>(actual), static_cast<std::int64_t>(expected), file, line);
}

void expect_same(const std::string& actual, const std::string& expected,
                 const char* file = __builtin_FILE(), int line = __builtin_LINE());

void expect_ok(const Status& s, const char* file = __builtin_FILE(), int line = __builtin_LINE());
template <class T>
void expect_ok(const Result<T>& r, const char* file = __builtin_FILE(),
               int line = __builtin_LINE()) {
  expect_ok(r.status(), file, line);
}

void expect_code(const Status& s, StatusCode code, const char* file = __builtin_FILE(),
                 int line = __builtin_LINE());
template <class T>
void expect_code(const Result<T>& r, StatusCode code, const char* file = __builtin_FILE(),
                 int line = __builtin_LINE()) {
  expect_code(r.status(), code, file, line);
}

/// `complaint` is empty; otherwise it says what is wrong.
void expect_nothing(const std::string& complaint, const char* file = __builtin_FILE(),
                    int line = __builtin_LINE());

/// `text` has `part` in it.
void expect_part(const std::string& text, const std::string& part,
                 const char* file = __builtin_FILE(), int line = __builtin_LINE());

}  // namespace comm::testing
