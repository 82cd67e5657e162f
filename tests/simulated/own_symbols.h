#pragma once

/// Whether a symbol is the simulation's: it lies in this executable, and not in the real library
/// that the loader's path offers too.

#include <dlfcn.h>

#include <string>

namespace comm::testing {

inline std::string file_of(const void* symbol) {
  Dl_info info{};
  return dladdr(symbol, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "nowhere";
}

/// For functions that nothing overloads.
template <class Function>
bool is_simulated(Function* function) {
  static const int here = 0;
  return file_of(reinterpret_cast<const void*>(function)) == file_of(&here);
}

}  // namespace comm::testing
