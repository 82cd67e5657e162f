#pragma once

/// The environment of a test: empty but for what it sets, and as it was afterwards.

#include <cstdlib>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

extern "C" char** environ;

namespace comm::test {

class Environment {
 public:
  using Variables = std::vector<std::pair<std::string, std::string>>;

  explicit Environment(const Variables& variables) {
    for (char** entry = environ; *entry != nullptr; ++entry) before_.emplace_back(*entry);
    ::clearenv();
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    ::clearenv();
    for (const std::string& entry : before_) {
      const std::size_t equals = entry.find('=');
      ::setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
    }
  }

 private:
  std::vector<std::string> before_;
};

}  // namespace comm::test
