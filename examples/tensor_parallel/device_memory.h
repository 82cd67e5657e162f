#pragma once

/// `DeviceMemory` lends data to backends that read the memory of a GPU: one buffer, which grows, and
/// one stream that orders copy, operation and copy back. An engine keeps its activations on the GPU
/// and needs none of this; the example's model computes on the CPU so that it runs anywhere.

#include <cstddef>
#include <span>
#include <utility>

#include "comm/device_span.h"
#include "comm/result.h"
#include "comm/stream.h"

namespace example {

class DeviceMemory {
 public:
  /// Takes GPU `local_rank` for this process.
  static comm::Result<DeviceMemory> create(int local_rank);

  DeviceMemory(DeviceMemory&& other) noexcept
      : stream_(std::exchange(other.stream_, nullptr)),
        buffer_(std::exchange(other.buffer_, nullptr)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  ~DeviceMemory();

  template <class Communicator, class T, class Use>
  comm::Status lend(Communicator& communicator, std::span<T> data, Use use) {
    if (comm::Status s = upload(data.data(), data.size_bytes()); !s.ok()) return s;
    const comm::DeviceSpan<T> span(static_cast<T*>(buffer_), data.size());
    if (comm::Status s = use(span, comm::Stream(stream_)); !s.ok()) return s;
    if (comm::Status s = download(data.data(), data.size_bytes()); !s.ok()) return s;
    return communicator.synchronize(comm::Stream(stream_));
  }

 private:
  explicit DeviceMemory(CUstream_st* stream) : stream_(stream) {}

  comm::Status upload(const void* from, std::size_t bytes);
  comm::Status download(void* to, std::size_t bytes);

  CUstream_st* stream_;
  void* buffer_ = nullptr;
  std::size_t capacity_ = 0;
};

}  // namespace example
