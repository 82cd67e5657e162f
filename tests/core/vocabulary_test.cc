// comm/stream.h, timeout.h, device_span.h, reduce_op.h, data_type.h, element.h, operations.h.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <chrono>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "comm/device_span.h"
#include "comm/float_types.h"
#include "comm/operations.h"

using comm::DataType, comm::DeviceSpan, comm::info_of, comm::ReduceOp, comm::Stream, comm::Timeout;
using namespace std::chrono_literals;

namespace engine {
struct half {
  std::uint16_t bits;
};
}  // namespace engine

template <>
inline constexpr DataType comm::element_type<engine::half> = DataType::f16;
template <>
inline constexpr bool comm::is_element<engine::half> = true;

// Element types.
template <class T>
concept Is = comm::Reducible<T> && comm::Transportable<T>;
template <class T>
concept Moves = !comm::Reducible<T> && comm::Transportable<T>;
struct Pair {
  int a, b;
};
static_assert(Is<signed char> && comm::element_type<signed char> == DataType::i8);
static_assert(Is<unsigned char> && comm::element_type<unsigned char> == DataType::u8);
static_assert(Is<int> && comm::element_type<int> == DataType::i32);
static_assert(Is<unsigned> && comm::element_type<unsigned> == DataType::u32);
static_assert(Is<long long> && comm::element_type<long long> == DataType::i64);
static_assert(Is<unsigned long> && comm::element_type<unsigned long> == DataType::u64);
static_assert(Is<float> && comm::element_type<float> == DataType::f32);
static_assert(Is<double> && comm::element_type<double> == DataType::f64);
static_assert(Is<const double>);
static_assert(Is<comm::bf16> && comm::element_type<comm::bf16> == DataType::bf16);
static_assert(Is<comm::f16> && comm::element_type<comm::f16> == DataType::f16);
static_assert(Is<comm::f8e4m3> && comm::element_type<comm::f8e4m3> == DataType::f8e4m3);
static_assert(Is<comm::f8e5m2> && comm::element_type<comm::f8e5m2> == DataType::f8e5m2);
static_assert(Is<__half> && comm::element_type<__half> == DataType::f16, "known by declaration");
static_assert(Is<__nv_bfloat16> && comm::element_type<__nv_bfloat16> == DataType::bf16);
static_assert(Is<__nv_fp8_e4m3> && Is<__nv_fp8_e5m2>);
static_assert(Is<engine::half>);
static_assert(Moves<char> && Moves<wchar_t> && Moves<bool> && Moves<short> &&
              Moves<unsigned short>);
static_assert(Moves<std::byte> && Moves<Pair> && Moves<long double> && Moves<char32_t>);
static_assert(!comm::Transportable<std::string> && !comm::Transportable<std::vector<int>>);
static_assert(comm::Writable<int> && !comm::Writable<const int>);

TEST_CASE("data type: sizes and names are those of the elements") {
  std::set<std::string> names;
  for (int i = 0; i < comm::kDataTypeCount; ++i) {
    const auto type = static_cast<DataType>(i);
    names.insert(to_string(type));
    CHECK(size_of(type) >= 1);
  }
  CHECK(names.size() == comm::kDataTypeCount);
  CHECK_FALSE(names.contains("unknown"));
  CHECK(size_of(DataType::i8) == sizeof(std::int8_t));
  CHECK(size_of(DataType::u64) == sizeof(std::uint64_t));
  CHECK(size_of(DataType::bf16) == sizeof(comm::bf16));
  CHECK(size_of(DataType::f8e5m2) == sizeof(comm::f8e5m2));
  CHECK(size_of(DataType::f64) == sizeof(double));
}

// Streams.
static_assert(!Stream().is_given());
static_assert(Stream(static_cast<CUstream_st*>(nullptr)).is_given(), "the legacy default stream");
static_assert(!(Stream() == Stream(static_cast<CUstream_st*>(nullptr))));
static_assert(std::is_convertible_v<CUstream_st*, Stream>);
static_assert(!std::is_constructible_v<Stream, int> && !std::is_constructible_v<Stream, long>);
static_assert(!std::is_constructible_v<Stream, std::nullptr_t>);

// Timeouts.
constexpr std::int64_t kNone = -5;
static_assert(!Timeout().is_given() && Timeout().nanoseconds_or(kNone) == kNone);
static_assert(Timeout(3ms).nanoseconds_or(kNone) == 3'000'000);
static_assert(Timeout(2h).nanoseconds_or(kNone) == 7'200'000'000'000);
static_assert(Timeout(0s).is_given() && Timeout(0s).nanoseconds_or(kNone) == 0);
static_assert(Timeout(-1s).nanoseconds_or(kNone) == 0, "what is past has passed");
static_assert(Timeout(std::chrono::duration<float>(0.5f)).nanoseconds_or(kNone) == 500'000'000);
static_assert(Timeout(std::chrono::hours::max()).is_never());
static_assert(Timeout::never().is_never() && Timeout::never().is_given());
static_assert(Timeout::milliseconds(7).nanoseconds_or(kNone) == 7'000'000);
static_assert(Timeout::milliseconds(INT64_MAX).is_never());
static_assert(Timeout::milliseconds(INT64_MIN).nanoseconds_or(kNone) == 0);
static_assert(Timeout::nanoseconds(-1).nanoseconds_or(kNone) == 0);

TEST_CASE("timeout: what is not a number is no time at all") {
  const std::chrono::duration<double> nan(std::numeric_limits<double>::quiet_NaN());
  CHECK(Timeout(nan).nanoseconds_or(kNone) == 0);
}

// Spans.
static_assert(DeviceSpan<int>().empty() && DeviceSpan<int>().data() == nullptr);
static_assert(!std::is_convertible_v<DeviceSpan<const int>, DeviceSpan<int>>);
static_assert(std::is_convertible_v<DeviceSpan<int>, DeviceSpan<const int>>);
static_assert(!std::is_convertible_v<DeviceSpan<Pair>, DeviceSpan<int>>);
static_assert(!std::is_convertible_v<DeviceSpan<int>, DeviceSpan<unsigned>>);

TEST_CASE("device span: is made of a pointer and a count, a range, or a driver's address") {
  std::vector<float> vector(6);
  float array[4] = {};
  CHECK(DeviceSpan(array, 4).size() == 4);
  CHECK(DeviceSpan(vector).data() == vector.data());
  CHECK(DeviceSpan(vector).size_bytes() == 24);
  const std::vector<float>& constant = vector;
  static_assert(std::is_same_v<decltype(DeviceSpan(constant)), DeviceSpan<const float>>);
  static_assert(std::is_same_v<decltype(DeviceSpan(std::span<float>(vector))), DeviceSpan<float>>);
  DeviceSpan span(vector);
  static_assert(std::is_same_v<decltype(DeviceSpan(span)), DeviceSpan<float>>);
  const DeviceSpan<const float> readable = span;
  CHECK(readable.data() == vector.data());
  const auto address = reinterpret_cast<unsigned long long>(array);
  CHECK(DeviceSpan<float>::at(address, 4).data() == array);
}

TEST_CASE("device span: parts are elements, not bytes") {
  double array[10] = {};
  const DeviceSpan span(array, 10);
  CHECK(span.subspan(3, 4).data() == array + 3);
  CHECK(span.subspan(3, 4).size() == 4);
  CHECK(span.first(2).size_bytes() == 16);
  CHECK(DeviceSpan<double>().subspan(0, 0).data() == nullptr);
}

// Reductions.
static_assert(ReduceOp::sum == ReduceOp::sum && !(ReduceOp::sum == ReduceOp::max));
static_assert(ReduceOp::premul_sum(2).factor() == 2 && ReduceOp::sum.factor() == 1);
static_assert(!(ReduceOp::premul_sum(2) == ReduceOp::premul_sum(3)));

TEST_CASE("operations: each has the name of its member of the face") {
  std::set<std::string> names;
  const int count = static_cast<int>(comm::Operation::abort) + 1;
  for (int i = 0; i < count; ++i) names.insert(to_string(static_cast<comm::Operation>(i)));
  CHECK(names.size() == static_cast<std::size_t>(count));
  CHECK_FALSE(names.contains("unknown"));
  CHECK(std::string(to_string(ReduceOp::premul_sum(2))) == "premul_sum");
}

TEST_CASE("operations: info_of tells what any of them is about") {
  const comm::OperationInfo sum =
      info_of(comm::ops::Reduce{nullptr, nullptr, 5, DataType::f16, ReduceOp::max, 3, Stream()});
  CHECK(sum.operation == comm::Operation::reduce);
  CHECK(sum.type == DataType::f16);
  CHECK(sum.count == 5);
  CHECK(sum.op == ReduceOp::max);
  CHECK(sum.reduces);
  CHECK(sum.root == 3);
  CHECK(sum.peer == -1);

  const comm::OperationInfo exchange =
      info_of(comm::ops::SendRecv{nullptr, 7, 1, nullptr, 8, 2, DataType::u8, Stream()});
  CHECK(exchange.count == 7);
  CHECK(exchange.peer == 1);
  CHECK_FALSE(exchange.reduces);

  const comm::OperationInfo command = info_of(comm::ops::RecvCommandU32{nullptr, 0, Stream()});
  CHECK(command.type == DataType::u32);
  CHECK(command.count == 1);
  CHECK(info_of(comm::ops::SymmetricAlloc{64}).count == 64);
  CHECK(info_of(comm::ops::Abort{}).root == -1);
}
