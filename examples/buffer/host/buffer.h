#pragma once

/// `Buffer<T>`: a few numbers that the program writes and the backend reads. This one is for backends
/// that read host memory; under --config=nccl the build takes the one in ../managed.

#include <cstddef>
#include <vector>

#include "comm/device_span.h"

namespace example {

template <class T>
class Buffer {
 public:
  explicit Buffer(std::size_t size) : values_(size) {}

  T& operator[](std::size_t i) { return values_[i]; }
  comm::DeviceSpan<T> span() { return comm::DeviceSpan<T>(values_); }

 private:
  std::vector<T> values_;
};

}  // namespace example
