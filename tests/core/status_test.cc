// comm/status.h and comm/result.h.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "comm/status.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>

#include "comm/result.h"

using comm::make_error, comm::Result, comm::Status, comm::StatusCode;

static_assert(sizeof(Status) == sizeof(void*));
static_assert(!std::is_copy_constructible_v<Status> && !std::is_copy_assignable_v<Status>);
static_assert(std::is_nothrow_move_constructible_v<Status>);
static_assert(!std::is_convertible_v<Status, bool> && !std::is_constructible_v<bool, Status>);
static_assert(Status().ok() && Status().code() == StatusCode::ok && Status().native_code() == 0);
static_assert(*Result<int>(7) == 7 && Result<int>(7).ok());
static_assert([] {
  Result<int> a(1), b(std::move(a));
  return *b;
}() == 1);

static Status fail(int code) {
  return make_error(StatusCode::nccl, code, "all_reduce: rank %d of %d: %s", 1, 4, "gone");
}

TEST_CASE("status: an error has a code, the number behind it, and a message") {
  const Status s = fail(6);
  CHECK_FALSE(s.ok());
  CHECK(s.code() == StatusCode::nccl);
  CHECK(s.native_code() == 6);
  CHECK(std::string(s.message()) == "all_reduce: rank 1 of 4: gone");
}

TEST_CASE("status: ok says so") {
  CHECK(std::string(Status().message()) == "ok");
}

TEST_CASE("status: a message may be long, empty, or have percent signs from an argument") {
  const std::string lengthy(100'000, 'x');
  CHECK(make_error(StatusCode::internal, 0, "%s", lengthy.c_str()).message() == lengthy);
  CHECK(std::string(make_error(StatusCode::internal, 0, "%s", "").message()).empty());
  CHECK(std::string(make_error(StatusCode::internal, 0, "%s", "%d%n").message()) == "%d%n");
}

TEST_CASE("status: moving hands the error on and leaves ok behind") {
  Status a = fail(1);
  Status b = std::move(a);
  CHECK(a.ok());  // NOLINT: what is left behind is the point
  CHECK(b.native_code() == 1);
  a = fail(2);
  a = std::move(b);
  CHECK(a.native_code() == 1);
  Status& self = a;
  a = std::move(self);
  CHECK(a.native_code() == 1);
}

TEST_CASE("status: a copy is independent and says the same") {
  Status a = fail(3);
  const Status b = a.copy();
  a = Status();
  CHECK(b.code() == StatusCode::nccl);
  CHECK(b.native_code() == 3);
  CHECK(std::string(b.message()) == "all_reduce: rank 1 of 4: gone");
  CHECK(Status().copy().ok());
}

TEST_CASE("status: an error may be a constant, which is never freed") {
  static constexpr comm::detail::StatusError kConstant{StatusCode::unsupported, true, 9, "never"};
  Status a(kConstant);
  const Status b = a.copy();
  a = Status();
  CHECK(b.code() == StatusCode::unsupported);
  CHECK(b.native_code() == 9);
  CHECK(std::string(b.message()) == "never");
}

TEST_CASE("status: each code has the name it is spelled with") {
  CHECK(std::string(to_string(StatusCode::ok)) == "ok");
  CHECK(std::string(to_string(StatusCode::invalid_argument)) == "invalid_argument");
  CHECK(std::string(to_string(StatusCode::unsupported)) == "unsupported");
  CHECK(std::string(to_string(StatusCode::unhealthy)) == "unhealthy");
  CHECK(std::string(to_string(StatusCode::timeout)) == "timeout");
  CHECK(std::string(to_string(StatusCode::peer_lost)) == "peer_lost");
  CHECK(std::string(to_string(StatusCode::mismatch)) == "mismatch");
  CHECK(std::string(to_string(StatusCode::rendezvous)) == "rendezvous");
  CHECK(std::string(to_string(StatusCode::cuda)) == "cuda");
  CHECK(std::string(to_string(StatusCode::nccl)) == "nccl");
  CHECK(std::string(to_string(StatusCode::internal)) == "internal");
}

TEST_CASE("result: holds a value, which is destroyed once, or an error") {
  auto counter = std::make_shared<int>(0);
  {
    Result<std::shared_ptr<int>> a(counter);
    Result<std::shared_ptr<int>> b = std::move(a);
    CHECK(b.ok());
    CHECK(counter.use_count() == 2);
    b = fail(4);
    CHECK(counter.use_count() == 1);
    CHECK(b.code() == StatusCode::nccl);
    b = std::shared_ptr<int>(counter);
    CHECK(b.ok());
    CHECK(counter.use_count() == 2);
    Result<std::shared_ptr<int>> c(counter);
    b = std::move(c);
    CHECK(**b == 0);
    CHECK(counter.use_count() == 2);
  }
  CHECK(counter.use_count() == 1);
}

TEST_CASE("result: the error can be handed on, and what is left never passes for a value") {
  Result<int> a = fail(5);
  const Status s = std::move(a).status();
  CHECK(s.native_code() == 5);
  CHECK_FALSE(a.ok());  // NOLINT: what is left behind is the point
  Result<int> b = fail(6);
  Result<int> c = std::move(b);
  CHECK_FALSE(b.ok());  // NOLINT
  CHECK(std::string(c.message()) == "all_reduce: rank 1 of 4: gone");
}

TEST_CASE("result: made of an ok status is an error, not a value that was never made") {
  const Result<int> r = Status();
  CHECK(r.code() == StatusCode::internal);
}

TEST_CASE("result: takes what its value can be made of") {
  const Result<std::string> text = "abc";
  CHECK(*text == "abc");
  CHECK(text->size() == 3);
  Result<std::unique_ptr<int>> owner = std::make_unique<int>(3);
  const std::unique_ptr<int> taken = *std::move(owner);
  CHECK(*taken == 3);
}
