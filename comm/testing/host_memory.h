#pragma once

/// `HostMemory` is the memory part of a world (contract/world.h) whose backend works on ordinary
/// memory of the process. A world for a GPU has members of the same names that copy to and from it.

#include <utility>
#include <vector>

#include "comm/device_span.h"

namespace comm::testing {

struct HostMemory {
  /// Memory with these values, for as long as it lives.
  template <class T>
  class Buffer {
   public:
    explicit Buffer(std::vector<T> values) : values_(std::move(values)) {}
    DeviceSpan<T> span() { return DeviceSpan<T>(values_.data(), values_.size()); }

   private:
    std::vector<T> values_;
  };

  /// What the memory holds now.
  template <class T>
  static std::vector<T> read(DeviceSpan<const T> span) {
    if (span.empty()) return {};
    return std::vector<T>(span.data(), span.data() + span.size());
  }
};

}  // namespace comm::testing
