#pragma once

/// What the simulation's own tests share: ranks as threads of this process, each on its own device,
/// with a communicator, a stream and device memory that are given back; and reports that the test
/// expects none of.

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>
#include <nccl.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "comm/testing/simulated/faults.h"
#include "comm/testing/simulated/report.h"
#include "comm/testing/simulated/settings.h"
#include "comm/testing/watchdog.h"

namespace comm::testing {

/// Device memory of `count` elements.
template <class T>
class Buffer {
 public:
  explicit Buffer(std::size_t count) : count_(count) {
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)) == cudaSuccess);
  }
  Buffer(const std::vector<T>& values, cudaStream_t stream) : Buffer(values.size()) {
    put(values, stream);
  }
  ~Buffer() { cudaFree(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* get() const { return data_; }
  std::size_t size() const { return count_; }

  void put(const std::vector<T>& values, cudaStream_t stream) {
    REQUIRE(cudaMemcpyAsync(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice,
                            stream) == cudaSuccess);
  }

  /// Waits for the stream.
  std::vector<T> take(cudaStream_t stream) const {
    std::vector<T> values(count_);
    REQUIRE(cudaMemcpyAsync(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost,
                            stream) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    return values;
  }

 private:
  std::size_t count_;
  T* data_ = nullptr;
};

class OwnedStream {
 public:
  explicit OwnedStream(unsigned flags = cudaStreamNonBlocking) {
    REQUIRE(cudaStreamCreateWithFlags(&stream_, flags) == cudaSuccess);
  }
  ~OwnedStream() { cudaStreamDestroy(stream_); }
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  operator cudaStream_t() const { return stream_; }  // NOLINT

 private:
  cudaStream_t stream_ = nullptr;
};

class OwnedEvent {
 public:
  OwnedEvent() {
    REQUIRE(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming) == cudaSuccess);
  }
  ~OwnedEvent() { cudaEventDestroy(event_); }
  OwnedEvent(const OwnedEvent&) = delete;
  OwnedEvent& operator=(const OwnedEvent&) = delete;
  operator cudaEvent_t() const { return event_; }  // NOLINT

 private:
  cudaEvent_t event_ = nullptr;
};

/// One thread for each rank, on its device.
inline void on_threads(int size, const std::function<void(int rank)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&body, rank] {
      cudaSetDevice(rank);
      body(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

struct Rank {
  int rank;
  int size;
  ncclComm_t comm;
  cudaStream_t stream;
};

/// Ranks of one communicator, destroyed afterwards.
inline void with_ranks(int size, const std::function<void(Rank)>& body) {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  on_threads(size, [&](int rank) {
    ncclComm_t comm = nullptr;
    REQUIRE(ncclCommInitRank(&comm, size, id, rank) == ncclSuccess);
    OwnedStream stream;
    body({rank, size, comm, stream});
    CHECK(ncclCommDestroy(comm) == ncclSuccess);
  });
}

/// No report is left over when it ends; those expected are taken in the test.
class NoReports {
 public:
  NoReports() { simulated::take_reports(); }
  ~NoReports() {
    for (const simulated::Report& report : simulated::take_reports()) {
      FAIL_CHECK(report.text);
    }
    simulated::clear_faults();
  }
  NoReports(const NoReports&) = delete;
  NoReports& operator=(const NoReports&) = delete;
};

}  // namespace comm::testing
