#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "comm/backends/nccl.h"
#include "comm/communicator.h"
#include "comm/testing/simulated/calls.h"

// A process loads one NCCL, and comm asks it once: each version has a child of its own.

namespace {

using comm::Communicator;
using comm::Nccl;
using comm::NcclConfig;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string version_of(int code) {
  return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." +
         std::to_string(code % 100);
}

/// What `create` says in a process whose NCCL says it is `version`; "ok", or its error.
std::string created_with(int version) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(60);
    ::setenv("COMM_SIM_NCCL_VERSION", std::to_string(version).c_str(), 1);
    std::string text = "ok";
    {
      NcclConfig config;
      config.launch = comm::LaunchConfig::local(0, 1, 0);
      auto made = Communicator<Nccl>::create(config);
      if (!made.ok()) text = made.message();
    }
    const bool asked_more =
        comm::simulated::calls("cudaGetDeviceCount") + comm::simulated::calls("ncclGetUniqueId") >
        0;
    text += asked_more ? " (asked more)" : " (asked no more)";
    (void)!::write(ends[1], text.data(), text.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  char bytes[512];
  for (ssize_t size = 0; (size = ::read(ends[0], bytes, sizeof bytes)) > 0;)
    text.append(bytes, static_cast<std::size_t>(size));
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  return text;
}

}  // namespace

TEST_CASE("trap 22, fault 54: a NCCL older than its header is refused first, by path and version") {
  const std::string refused = created_with(21801);
  CHECK_MESSAGE(has(refused, "NCCL 2.18.1 was loaded from "), refused);
  CHECK_MESSAGE(has(refused, "versions_test"), refused);  // The file: here the test itself.
  CHECK_MESSAGE(has(refused, version_of(NCCL_VERSION_CODE)), refused);
  CHECK_MESSAGE(has(refused, "(asked no more)"), refused);
}

TEST_CASE("trap 22: a newer NCCL of the same generation is taken, one of the next is not") {
  CHECK(has(created_with(NCCL_VERSION_CODE), "ok (asked more)"));
  CHECK(has(created_with(NCCL_VERSION_CODE + 100), "ok (asked more)"));
  CHECK(has(created_with(30000), "NCCL 3.0.0 was loaded from"));
}
