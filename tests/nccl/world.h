#pragma once

/// The worlds that the Nccl backend's tests run in: ranks as threads of this process, each with a
/// simulated GPU of its own. `NcclWorld<mode>` is one for the contract suite.

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/backends/nccl.h"
#include "comm/communicator.h"
#include "comm/rendezvous/listener.h"
#include "comm/testing/run_threads.h"
#include "comm/testing/simulated/faults.h"
#include "comm/testing/simulated/report.h"
#include "comm/testing/simulated/settings.h"

namespace comm::testing {

inline bool has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

/// Memory of the GPU that is current where it is made.
template <class T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(const std::vector<T>& values) : count_(values.size()) {
    if (count_ == 0) return;
    CHECK(cudaMalloc(reinterpret_cast<void**>(&data_), count_ * sizeof(T)) == cudaSuccess);
    CHECK(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice) ==
          cudaSuccess);
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() { (void)cudaFree(data_); }

  DeviceSpan<T> span() const { return DeviceSpan<T>(data_, count_); }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    if (count_ != 0)
      CHECK(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost) ==
            cudaSuccess);
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

/// The default, with waits that suit a test.
inline NcclConfig test_config(LaunchConfig launch, NcclMode mode = NcclMode::blocking) {
  NcclConfig config;
  launch.init_timeout = std::chrono::seconds(60);
  config.device = launch.rank;
  config.launch = std::move(launch);
  config.mode = mode;
  config.collective_timeout = std::chrono::seconds(60);
  config.receive_buffer_bytes = 64 << 10;
  config.one_shot_bytes = 4 << 10;
  config.log = [](std::string_view) {};
  return config;
}

/// For `run_nccl`: deadlines of tests that let them pass.
inline void short_waits(NcclConfig& config) {
  config.collective_timeout = std::chrono::milliseconds(300);
  config.close_timeout = std::chrono::milliseconds(500);
  config.abort_timeout = std::chrono::milliseconds(2000);
}

/// "ok", or the code and the message.
template <class StatusOrResult>
std::string said(const StatusOrResult& s) {
  return s.ok() ? "ok" : std::string(to_string(s.code())) + ": " + s.message();
}

/// Calls `body(rank, config)` on a thread for each rank, with the default configuration.
template <class Body>
void on_ranks(int ranks, Body body) {
  Result<std::shared_ptr<Listener>> listener = Listener::bind("127.0.0.1", 0);
  CHECK(said(listener) == "ok");
  if (!listener.ok()) return;
  run_threads(ranks, [&](int rank) {
    (void)cudaSetDevice(rank);
    LaunchConfig launch = LaunchConfig::local(rank, ranks, (*listener)->port());
    if (rank == 0) launch.listener = *listener;
    body(rank, test_config(std::move(launch)));
  });
}

/// Ranks with what `change` makes of the default.
template <class Change, class Body>
void run_nccl(int ranks, Change change, Body body) {
  on_ranks(ranks, [&](int, NcclConfig config) {
    change(config);
    Result<Communicator<Nccl>> made = Communicator<Nccl>::create(config);
    CHECK(said(made) == "ok");
    if (made.ok()) body(*made);
  });
}

template <class Body>
void run_nccl(int ranks, Body body) {
  run_nccl(
      ranks, [](NcclConfig&) {}, body);
}

template <NcclMode kMode>
struct NcclWorld {
  using Backend = Nccl;
  template <class T>
  using Buffer = DeviceBuffer<T>;

  static std::vector<int> sizes() { return {1, 2, 3, 4}; }

  template <class Body>
  static void run(int ranks, Body body, Timeout collective = {}) {
    run_nccl(
        ranks,
        [&](NcclConfig& config) {
          config.mode = kMode;
          if (!collective.is_given()) return;
          config.collective_timeout =
              std::chrono::milliseconds(collective.nanoseconds_or(0) / 1'000'000);
        },
        body);
  }

  template <class T>
  static std::vector<T> read(DeviceSpan<const T> span) {
    std::vector<T> values(span.size());
    if (!values.empty())
      CHECK(cudaMemcpy(values.data(), span.data(), span.size_bytes(), cudaMemcpyDeviceToHost) ==
            cudaSuccess);
    return values;
  }
};

/// Everything that the simulation had to complain about since it was made fails the test.
class NoReports {
 public:
  NoReports() { (void)simulated::take_reports(); }
  NoReports(const NoReports&) = delete;
  NoReports& operator=(const NoReports&) = delete;
  ~NoReports() {
    simulated::clear_faults();
    for (const simulated::Report& report : simulated::take_reports()) FAIL_CHECK(report.text);
  }
};

}  // namespace comm::testing
