// What happens when a process ends: the driver goes before static objects do (CUDA Runtime API,
// "Initialization": calls during termination answer cudaErrorCudartUnloading), leaks are reported,
// and a failure prints the seed.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "tests/simulated/fixture.h"
#include "tests/simulated/own_symbols.h"

using namespace comm;
using namespace comm::testing;

namespace {

struct Outcome {
  int status = -1;
  std::string errors;
};

// Runs `body` in a child that ends by exit(status of body), with what it printed on stderr.
Outcome run_child(const std::function<int()>& body, const char* variable = nullptr,
                  const char* value = "") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  fflush(stdout);  // Or the child prints it again.
  const pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    alarm(60);
    signal(SIGABRT, SIG_DFL);  // doctest's handler is the parent's.
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    if (variable != nullptr) setenv(variable, value, 1);
    exit(body());
  }
  close(ends[1]);
  Outcome outcome;
  char bytes[512];
  for (ssize_t size = 0; (size = read(ends[0], bytes, sizeof(bytes))) > 0;) {
    outcome.errors.append(bytes, static_cast<std::size_t>(size));
  }
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return outcome;
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// Made before the first CUDA call, so destroyed after the driver is gone.
struct StaticOwner {
  void* memory = nullptr;

  ~StaticOwner() {
    if (memory != nullptr && cudaFree(memory) != cudaErrorCudartUnloading) _exit(77);
  }
};

}  // namespace

TEST_CASE("the symbols are the simulation's") {
  CHECK(is_simulated(cudaFree));
}

TEST_CASE("static objects meet an unloaded driver, and their leaks are reported") {
  const Outcome outcome = run_child([] {
    static StaticOwner owner;
    cudaMalloc(&owner.memory, 64);
    return 0;
  });
  CHECK(outcome.status == 0);
  CHECK(contains(outcome.errors, "64 bytes"));
  CHECK(contains(outcome.errors, "never freed"));
}

TEST_CASE("a process that fails prints its seed") {
  const Outcome outcome = run_child(
      [] {
        cudaFree(nullptr);
        return 3;
      },
      "COMM_SIM_SEED", "41");
  CHECK(outcome.status == 3);
  CHECK(contains(outcome.errors, "COMM_SIM_SEED=41"));
}

TEST_CASE("strict as asked: a report fails the process, or ends it at once") {
  const auto leak = [] {
    cudaStream_t stream = nullptr;
    cudaStreamCreate(&stream);
    return 0;
  };
  CHECK(run_child(leak).status == 0);
  CHECK(run_child(leak, "COMM_SIM_STRICT", "fail").status == 86);
  CHECK(run_child(leak, "COMM_SIM_STRICT", "abort").status == -SIGABRT);
}

TEST_CASE("faults, devices and the driver's absence by environment") {
  const auto count_devices = [] {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    return error == cudaSuccess ? count : static_cast<int>(error);
  };
  CHECK(run_child(count_devices, "COMM_SIM_DEVICES", "3").status == 3);
  CHECK(run_child(count_devices, "COMM_SIM_DEVICES", "0").status == cudaErrorNoDevice);
  CHECK(run_child(count_devices, "COMM_SIM_DEVICES", "none").status == cudaErrorInsufficientDriver);
  CHECK(run_child(count_devices, "COMM_SIM_FAULTS", "cudaGetDeviceCount:fail=46").status == 46);
  CHECK(run_child(count_devices, "COMM_SIM_FAULTS", "cudaGetDeviceCount:kill").status == -SIGKILL);
  const Outcome refused = run_child(count_devices, "COMM_SIM_FAULTS", "nonsense");
  CHECK(refused.status == -SIGABRT);
  CHECK(contains(refused.errors, "nonsense"));
}

TEST_CASE("NCCL without a GPU: the version and ids are there, communicators are not") {
  const auto no_gpu = [] {
    int version = 0;
    ncclUniqueId id;
    ncclComm_t comm = nullptr;
    if (ncclGetVersion(&version) != ncclSuccess || version != NCCL_VERSION_CODE) return 1;
    if (ncclGetUniqueId(&id) != ncclSuccess) return 2;
    if (ncclCommInitRank(&comm, 1, id, 0) != ncclUnhandledCudaError) return 3;
    return 0;
  };
  CHECK(run_child(no_gpu, "COMM_SIM_DEVICES", "none").status == 0);
}
