// Nvtx, seen by a library that NVTX loads as it loads a profiler.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "comm/decorators/nvtx.h"

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <type_traits>

#include "comm/backends/single_gpu.h"
#include "comm/communicator.h"
#include "comm/decorators/checked.h"
#include "comm/decorators/logged.h"
#include "comm/testing/expect.h"
#include "tests/core/recording_backend.h"

using comm::testing::expect_ok;

static_assert(std::is_empty_v<comm::Nvtx<comm::Checked<comm::Logged<comm::SingleGpu>>>>);
static_assert(comm::Creatable<comm::Nvtx<tests::RecordingBackend>>);

TEST_CASE("nvtx: each operation is a range of the domain comm, with its bytes") {
  constexpr const char* kRecorder = "tests/decorators/libnvtx_recorder.so";
  // Read by NVTX at its first call, which is below.
  ::setenv("NVTX_INJECTION64_PATH", kRecorder, 1);
  tests::Recording recording;
  comm::Communicator c{comm::Nvtx(std::move(*tests::RecordingBackend::create({1, 2, &recording})))};
  float memory[8] = {};
  const comm::DeviceSpan<float> span(memory, 8);
  const std::size_t counts[2] = {1, 2};
  expect_ok(c.all_reduce(span));
  expect_ok(c.group_start());
  expect_ok(c.send_to(span.first(3), 0));
  expect_ok(c.group_end());
  expect_ok(c.all_to_all_v(span.first(3), counts, span.subspan(3, 3), counts));
  recording.answer = comm::StatusCode::peer_lost;
  CHECK_FALSE(c.barrier().ok());

  void* library = ::dlopen(kRecorder, RTLD_NOW | RTLD_NOLOAD);
  REQUIRE_MESSAGE(library != nullptr, "NVTX has not loaded the library");
  const auto lines = reinterpret_cast<const char* (*)()>(::dlsym(library, "nvtx_recorder_lines"));
  REQUIRE(static_cast<bool>(lines));
  CHECK(std::string(lines()) ==
        "domain comm\n"
        "push all_reduce 32\npop\n"
        "push group_start 0\npop\n"
        "push send_to 12\npop\n"
        "push group_end 0\npop\n"
        "push all_to_all_v 12\npop\n"
        "push barrier 0\npop\n");
}
