// Streams, events and the order that CUDA promises and no more (CUDA C++ Programming Guide,
// "Streams", "Events", "Explicit Synchronization", "Legacy Default Stream").

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "tests/simulated/fixture.h"
#include "tests/simulated/own_symbols.h"

using namespace comm;
using namespace comm::testing;

namespace {

constexpr std::size_t kCount = 64;

// For cases in which the host waits for everything: no clock has a part in what is held back.
class HoldUntilNeeded {
 public:
  HoldUntilNeeded() : before_(simulated::settings()) {
    simulated::Settings settings = before_;
    settings.max_hold_ms = 600000;
    simulated::set_settings(settings);
  }
  ~HoldUntilNeeded() { simulated::set_settings(before_); }
  HoldUntilNeeded(const HoldUntilNeeded&) = delete;
  HoldUntilNeeded& operator=(const HoldUntilNeeded&) = delete;

 private:
  simulated::Settings before_;
};

// Copies `first` to `second` on another stream, with or without an event between, and says what
// arrives.
int handed_over(bool with_event) {
  OwnedStream writer;
  OwnedStream reader;
  OwnedEvent written;
  Buffer<int> first(std::vector<int>(kCount, 1), writer);
  Buffer<int> second(std::vector<int>(kCount, 0), reader);
  cudaStreamSynchronize(writer);
  cudaStreamSynchronize(reader);

  cudaMemsetAsync(first.get(), 7, kCount * sizeof(int), writer);
  if (with_event) {
    cudaEventRecord(written, writer);
    cudaStreamWaitEvent(reader, written, 0);
  }
  cudaMemcpyAsync(second.get(), first.get(), kCount * sizeof(int), cudaMemcpyDeviceToDevice,
                  reader);
  const std::vector<int> got = second.take(reader);
  cudaStreamSynchronize(writer);
  return got.back();
}

}  // namespace

TEST_CASE("the symbols are the simulation's") {
  CHECK(is_simulated(cudaFree));
  CHECK(is_simulated(cudaStreamSynchronize));
  CHECK(is_simulated(ncclAllReduce));
  CHECK(is_simulated(ncclCommInitRank));
}

TEST_CASE("an event orders two streams under every schedule") {
  NoReports none;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    simulated::set_seed(seed);
    CHECK(handed_over(true) == 0x07070707);
  }
}

TEST_CASE("a missing event is reported under every schedule, and gives wrong data under some") {
  NoReports none;
  const HoldUntilNeeded hold;
  int wrong = 0;
  int right = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    simulated::set_seed(seed);
    const int got = handed_over(false);
    (got == 0x07070707 ? right : wrong) += 1;
    const auto reports = simulated::take_reports();
    REQUIRE(reports.size() == 1);
    CHECK(reports[0].violation == simulated::Violation::unordered_access);
    CHECK(reports[0].text.find("cudaMemsetAsync") != std::string::npos);
    CHECK(reports[0].text.find("cudaMemcpyAsync") != std::string::npos);
  }
  CHECK(wrong > 0);
  CHECK(right > 0);
}

TEST_CASE("the same seed gives the same answer") {
  NoReports none;
  const HoldUntilNeeded hold;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    simulated::set_seed(seed);
    const int first = handed_over(false);
    simulated::set_seed(seed);
    CHECK(handed_over(false) == first);
  }
  simulated::take_reports();
}

TEST_CASE("recording again does not change what was waited for before") {
  NoReports none;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    simulated::set_seed(seed);
    OwnedStream a;
    OwnedStream b;
    OwnedEvent event;
    Buffer<int> data(kCount);
    Buffer<int> copy(kCount);
    cudaMemsetAsync(data.get(), 1, kCount * sizeof(int), a);
    cudaEventRecord(event, a);
    cudaStreamWaitEvent(b, event, 0);
    cudaEventRecord(event, b);  // Now of b; b still waits for a's memset.
    cudaMemcpyAsync(copy.get(), data.get(), kCount * sizeof(int), cudaMemcpyDeviceToDevice, b);
    CHECK(copy.take(b).front() == 0x01010101);
    CHECK(cudaEventQuery(event) == cudaSuccess);
  }
}

TEST_CASE("an event never recorded is complete, and waiting for it orders nothing") {
  NoReports none;
  OwnedEvent event;
  OwnedStream stream;
  CHECK(cudaEventQuery(event) == cudaSuccess);
  CHECK(cudaEventSynchronize(event) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(stream, event, 0) == cudaSuccess);
}

TEST_CASE("polling ends, and says not ready until then") {
  NoReports none;
  bool was_not_ready = false;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    simulated::set_seed(seed);
    OwnedStream stream;
    OwnedEvent event;
    Buffer<int> data(kCount);
    cudaMemsetAsync(data.get(), 1, kCount * sizeof(int), stream);
    cudaEventRecord(event, stream);
    cudaError_t state = cudaEventQuery(event);
    while (state == cudaErrorNotReady) {
      was_not_ready = true;
      state = cudaEventQuery(event);
    }
    CHECK(state == cudaSuccess);
  }
  CHECK(was_not_ready);
  cudaGetLastError();
}

TEST_CASE("the legacy stream orders blocking streams, and not those made non-blocking") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    NoReports none;
    simulated::set_seed(seed);
    OwnedStream blocking(cudaStreamDefault);
    Buffer<int> data(kCount);
    cudaMemsetAsync(data.get(), 3, kCount * sizeof(int), blocking);
    cudaMemset(data.get(), 4, kCount * sizeof(int));
    CHECK(data.take(blocking).front() == 0x04040404);
  }
  simulated::take_reports();
  OwnedStream free_running;
  Buffer<int> data(kCount);
  cudaMemset(data.get(), 4, kCount * sizeof(int));
  cudaMemsetAsync(data.get(), 3, kCount * sizeof(int), free_running);
  CHECK(simulated::take_reports().size() == 1);
}

TEST_CASE("work that nobody waits for starts by itself") {
  NoReports none;
  for (unsigned seed = 1; seed <= 5; ++seed) {
    simulated::set_seed(seed);
    OwnedStream stream;
    bool ran = false;
    std::atomic<bool> seen{false};
    cudaLaunchHostFunc(
        stream, [](void* flag) { static_cast<std::atomic<bool>*>(flag)->store(true); }, &seen);
    while (!seen) std::this_thread::yield();
    ran = seen;
    CHECK(ran);
  }
}

TEST_CASE("pageable memory is copied before cudaMemcpyAsync returns") {
  NoReports none;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    simulated::set_seed(seed);
    OwnedStream stream;
    Buffer<int> data(1);
    {
      std::vector<int> host{5};
      data.put(host, stream);
      host[0] = 6;
    }
    CHECK(data.take(stream)[0] == 5);
  }
}

TEST_CASE("memory freed while work uses it is reported") {
  NoReports none;
  OwnedStream stream;
  int* data = nullptr;
  cudaMalloc(reinterpret_cast<void**>(&data), 64);
  cudaMemsetAsync(data, 0, 64, stream);
  CHECK(cudaFree(data) == cudaSuccess);
  const auto reports = simulated::take_reports();
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].violation == simulated::Violation::freed_in_flight);
}

TEST_CASE("pointers out of range are refused and reported") {
  NoReports none;
  Buffer<char> data(64);
  CHECK(cudaMemset(data.get(), 0, 65) == cudaErrorInvalidValue);
  CHECK(cudaMemset(data.get() + 60, 0, 5) == cudaErrorInvalidValue);
  CHECK(simulated::take_reports().size() == 2);
  CHECK(cudaFree(data.get() + 1) == cudaErrorInvalidValue);
  CHECK(simulated::take_reports().size() == 1);
}
