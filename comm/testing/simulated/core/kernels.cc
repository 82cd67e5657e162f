#include "comm/testing/simulated/core/kernels.h"

#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "comm/testing/simulated/report.h"

namespace comm::simulated {
namespace detail {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<KernelEntry>> by_name;
  std::map<const void*, KernelEntry*> by_address;
};

Registry& registry() {
  static Registry& registry = *new Registry;
  return registry;
}

// "_Z..." as C++ writes it, without return type and parameters: comm::add<float>.
std::string plain_name(const std::string& name) {
  int status = 0;
  char* demangled = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string plain = status == 0 ? demangled : name;
  std::free(demangled);
  // The parameters begin at the last parenthesis that is outside template arguments.
  int depth = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (plain[i] == '<') ++depth;
    if (plain[i] == '>') --depth;
    if (plain[i] == '(' && depth == 0 && plain.compare(i, 11, "(anonymous ") != 0) {
      plain.resize(i);
      break;
    }
  }
  if (plain.starts_with("void ")) plain.erase(0, 5);
  return plain;
}

KernelEntry* entry_of(Registry& all, const std::string& name) {
  std::unique_ptr<KernelEntry>& entry = all.by_name[plain_name(name)];
  if (entry == nullptr) {
    entry = std::make_unique<KernelEntry>();
    entry->name = plain_name(name);
  }
  return entry.get();
}

}  // namespace

KernelEntry* kernel_named(const std::string& name) {
  const std::lock_guard lock(registry().mutex);
  return entry_of(registry(), name);
}

KernelEntry* kernel_at(const void* address) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().by_address.find(address);
  return found == registry().by_address.end() ? nullptr : found->second;
}

bool is_kernel(const void* handle) {
  const std::lock_guard lock(registry().mutex);
  for (const auto& [name, entry] : registry().by_name) {
    if (entry.get() == handle) return true;
  }
  return false;
}

void name_address(const void* address, const std::string& name) {
  const std::lock_guard lock(registry().mutex);
  registry().by_address[address] = entry_of(registry(), name);
}

cudaError_t prepare_launch(const KernelEntry* kernel, const char* call, dim3 grid, dim3 block,
                           std::size_t shared_bytes, void** arguments, Submission* submission) {
  if (kernel == nullptr || !kernel->implemented) {
    report(Violation::bad_usage,
           "%s: no host function stands for the kernel '%s'; comm::simulated::register_kernel "
           "makes one known",
           call, kernel == nullptr ? "(an address that nothing named)" : kernel->name.c_str());
    return cudaErrorInvalidDeviceFunction;
  }
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || threads == 0 || threads > 1024) {
    return cudaErrorInvalidConfiguration;
  }
  if (grid.y > 65535 || grid.z > 65535) return cudaErrorInvalidConfiguration;

  const auto values = std::make_shared<std::vector<std::vector<char>>>();
  for (std::size_t i = 0; i < kernel->kernel.argument_sizes.size(); ++i) {
    const char* value = static_cast<const char*>(arguments[i]);
    values->emplace_back(value, value + kernel->kernel.argument_sizes[i]);
  }
  Launch launch;
  launch.grid = {grid.x, grid.y, grid.z};
  launch.block = {block.x, block.y, block.z};
  launch.shared_bytes = shared_bytes;
  if (kernel->kernel.touches) {
    for (const Touched& touched : kernel->kernel.touches(arguments)) {
      submission->accesses.push_back(
          {reinterpret_cast<std::uintptr_t>(touched.begin), touched.bytes, touched.written});
    }
  }
  submission->what = "kernel " + kernel->name;
  submission->pace = Pace::awaited;
  submission->run = [body = kernel->kernel.run, values, launch](Operation&) {
    std::vector<void*> packed;
    for (std::vector<char>& value : *values) packed.push_back(value.data());
    body(launch, packed.data());
  };
  return cudaSuccess;
}

}  // namespace detail

void register_kernel(const std::string& name, HostKernel kernel) {
  const std::lock_guard lock(detail::registry().mutex);
  detail::KernelEntry* entry = detail::entry_of(detail::registry(), name);
  entry->kernel = std::move(kernel);
  entry->implemented = true;
}

void register_kernel(const void* address, const std::string& name, HostKernel kernel) {
  register_kernel(name, std::move(kernel));
  detail::name_address(address, name);
}

void* kernel_handle(const std::string& name) {
  detail::KernelEntry* entry = detail::kernel_named(name);
  return entry->implemented ? entry : nullptr;
}

}  // namespace comm::simulated
