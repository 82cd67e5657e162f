#pragma once

/// `DataType` names an element type at run time: what a backend is told after the typed face has
/// checked it. The names are those of NCCL, without its prefix.

#include <cstddef>
#include <cstdint>

#include "comm/language.h"

namespace comm {

enum class DataType : std::uint8_t {
  i8,
  u8,
  i32,
  u32,
  i64,
  u64,
  f16,
  bf16,
  f32,
  f64,
  f8e4m3,  ///< FP8 E4M3 without infinities, as `__nv_fp8_e4m3`.
  f8e5m2,  ///< FP8 E5M2, as `__nv_fp8_e5m2`.
};

inline constexpr int kDataTypeCount = 12;

/// Bytes of one element.
constexpr std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::i8:
    case DataType::u8:
    case DataType::f8e4m3:
    case DataType::f8e5m2: return 1;
    case DataType::f16:
    case DataType::bf16: return 2;
    case DataType::i32:
    case DataType::u32:
    case DataType::f32: return 4;
    case DataType::i64:
    case DataType::u64:
    case DataType::f64: return 8;
  }
  return 1;
}

/// The type as it is spelled above, for messages.
constexpr const char* to_string(DataType type) {
  switch (type) {
    case DataType::i8: return "i8";
    case DataType::u8: return "u8";
    case DataType::i32: return "i32";
    case DataType::u32: return "u32";
    case DataType::i64: return "i64";
    case DataType::u64: return "u64";
    case DataType::f16: return "f16";
    case DataType::bf16: return "bf16";
    case DataType::f32: return "f32";
    case DataType::f64: return "f64";
    case DataType::f8e4m3: return "f8e4m3";
    case DataType::f8e5m2: return "f8e5m2";
  }
  return "unknown";
}

}  // namespace comm
