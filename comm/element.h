#pragma once

/// Which C++ types may travel. Two concepts give two errors: any trivially copyable type may be
/// *moved* (`Transportable`); only types that name a `DataType` may be *reduced* (`Reducible`).
///
/// CUDA's 16- and 8-bit types are known by declaration alone, so no CUDA header is needed. An
/// engine that has a 16-bit type of its own tells comm what its bits mean:
///
///     template <> inline constexpr comm::DataType comm::element_type<engine::half> =
///         comm::DataType::f16;
///     template <> inline constexpr bool comm::is_element<engine::half> = true;
///
/// `char`, `wchar_t` and `bool` are transportable, not reducible: whether `char` is signed depends
/// on the platform, so a reduction of it would not mean the same everywhere.

#include <concepts>
#include <type_traits>

#include "comm/data_type.h"

struct __half;
struct __nv_bfloat16;
struct __nv_fp8_e4m3;
struct __nv_fp8_e5m2;

namespace comm {

struct bf16;
struct f16;
struct f8e4m3;
struct f8e5m2;

namespace detail {

template <class T, class... Types>
concept OneOf = (std::same_as<T, Types> || ...);

template <class T>
concept Character = OneOf<T, bool, char, wchar_t, char8_t, char16_t, char32_t>;

// 16-bit integers are left out: NCCL has no such type.
template <class T>
concept Integer = std::integral<T> && !Character<T> && sizeof(T) != 2 && sizeof(T) <= 8;

template <class T>
consteval DataType integer_type() {
  if constexpr (sizeof(T) == 1) return std::is_signed_v<T> ? DataType::i8 : DataType::u8;
  if constexpr (sizeof(T) == 4) return std::is_signed_v<T> ? DataType::i32 : DataType::u32;
  return std::is_signed_v<T> ? DataType::i64 : DataType::u64;
}

template <class T>
consteval DataType type_of() {
  if constexpr (Integer<T>) return integer_type<T>();
  if constexpr (std::same_as<T, float>) return DataType::f32;
  if constexpr (std::same_as<T, double>) return DataType::f64;
  if constexpr (OneOf<T, bf16, __nv_bfloat16>) return DataType::bf16;
  if constexpr (OneOf<T, f16, __half>) return DataType::f16;
  if constexpr (OneOf<T, f8e4m3, __nv_fp8_e4m3>) return DataType::f8e4m3;
  if constexpr (OneOf<T, f8e5m2, __nv_fp8_e5m2>) return DataType::f8e5m2;
#if defined(__STDCPP_FLOAT16_T__)
  if constexpr (std::same_as<T, decltype(0.0f16)>) return DataType::f16;
#endif
#if defined(__STDCPP_BFLOAT16_T__)
  if constexpr (std::same_as<T, decltype(0.0bf16)>) return DataType::bf16;
#endif
  return DataType::u8;
}

template <class T>
concept KnownFloat = OneOf<T, float, double, bf16, f16, f8e4m3, f8e5m2, __nv_bfloat16, __half,
                           __nv_fp8_e4m3, __nv_fp8_e5m2>
#if defined(__STDCPP_FLOAT16_T__)
    || std::same_as<T, decltype(0.0f16)>
#endif
#if defined(__STDCPP_BFLOAT16_T__)
    || std::same_as<T, decltype(0.0bf16)>
#endif
    ;

}  // namespace detail

/// Whether `T` names a `DataType`. Specialise both this and `element_type` for a type of your own.
template <class T>
inline constexpr bool is_element = detail::Integer<T> || detail::KnownFloat<T>;

/// The `DataType` of `T`; a meaningful value only where `is_element<T>`.
template <class T>
inline constexpr DataType element_type = detail::type_of<T>();

/// May be moved between ranks: its bytes are its value.
template <class T>
concept Transportable = is_element<std::remove_cv_t<T>> || std::is_trivially_copyable_v<T>;

/// May be reduced (summed, averaged, …) over ranks: one of the types of `DataType`.
template <class T>
concept Reducible = is_element<std::remove_cv_t<T>>;

/// May hold a result: not `const`.
template <class T>
concept Writable = !std::is_const_v<T>;

}  // namespace comm
