#pragma once

/// Kernels: host functions that stand for device code. One is found by the name of the kernel
/// (mangled or not, with or without parameters: `comm::add<float>`), by a handle that
/// cuModuleGetFunction or cuLibraryGetKernel gave for that name, or by the address that is passed
/// to cudaLaunchKernel. It runs once per launch, on the stream's worker, and walks the grid itself.
///
///     comm::simulated::register_kernel(
///         "scale", +[](const Launch&, float* data, float factor, std::size_t count) { ... });
///
/// The optional third argument says what a launch reads and writes, so that a missing event is
/// reported; without it a launch is only ordered and run. Thread-safe.

#include <cstddef>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "comm/language.h"

namespace comm::simulated {

struct Launch {
  struct Extent {
    unsigned x = 1, y = 1, z = 1;
  };
  Extent grid, block;
  std::size_t shared_bytes = 0;
};

/// A part of memory that a launch touches.
struct Touched {
  const void* begin = nullptr;
  std::size_t bytes = 0;
  bool written = false;
};

struct HostKernel {
  std::vector<std::size_t> argument_sizes;
  std::function<void(const Launch&, void** arguments)> run;
  std::function<std::vector<Touched>(void** arguments)> touches;
};

void register_kernel(const std::string& name, HostKernel kernel);

/// By the address that cudaLaunchKernel gets.
void register_kernel(const void* address, const std::string& name, HostKernel kernel);

/// What cuModuleGetFunction gives for the name: a CUfunction. Null when it is not registered.
void* kernel_handle(const std::string& name);

namespace detail {

template <class Function, class... Arguments, std::size_t... I>
decltype(auto) apply_packed(const Function& function, void** packed, std::index_sequence<I...>,
                            std::tuple<Arguments...>*) {
  return function(*static_cast<Arguments*>(packed[I])...);
}

}  // namespace detail

template <class... Arguments>
HostKernel host_kernel(
    void (*body)(const Launch&, Arguments...),
    std::type_identity_t<std::function<std::vector<Touched>(Arguments...)>> touches = nullptr) {
  static_assert((std::is_trivially_copyable_v<Arguments> && ...),
                "kernel arguments are copied when the kernel is launched");
  using Packed = std::tuple<Arguments...>;
  using All = std::index_sequence_for<Arguments...>;
  HostKernel kernel;
  kernel.argument_sizes = {sizeof(Arguments)...};
  kernel.run = [body](const Launch& launch, void** packed) {
    const auto call = [&](Arguments... arguments) { body(launch, arguments...); };
    detail::apply_packed(call, packed, All(), static_cast<Packed*>(nullptr));
  };
  if (touches) {
    kernel.touches = [touches](void** packed) {
      return detail::apply_packed(touches, packed, All(), static_cast<Packed*>(nullptr));
    };
  }
  return kernel;
}

template <class... Arguments>
void register_kernel(
    const std::string& name, void (*body)(const Launch&, Arguments...),
    std::type_identity_t<std::function<std::vector<Touched>(Arguments...)>> touches = nullptr) {
  register_kernel(name, host_kernel(body, std::move(touches)));
}

}  // namespace comm::simulated
